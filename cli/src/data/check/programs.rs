//! The tests of programming questions, read as the reward service reads them: a question that it could not judge is
//! named before a run.

use evenkeel_data::Task;
use evenkeel_proto::v1::code_task::TestsSource;
use evenkeel_sandbox::rows::{MAX_PRIVATE_BYTES, tests_of_row};

/// What is wrong with the tests of a task, if anything.
pub(super) fn defect(task: &Task) -> Option<String> {
    let Some(TestsSource::LiveCodeBench(cases)) = task.tests() else { return None };
    match tests_of_row(&cases.public_test_cases, &cases.private_test_cases, &cases.metadata, MAX_PRIVATE_BYTES) {
        Err(error) => Some(error.to_string()),
        Ok(tests) => match tests.defect() {
            Some(defect) => Some(defect.to_string()),
            None => tests
                .expect_nothing()
                .then(|| "no test expects an output: a program that does nothing passes".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::LiveCodeBenchCases;

    use super::*;

    fn of(public: &str, private: &str, metadata: &str) -> Option<String> {
        let public_test_cases = public.to_owned();
        let private_test_cases = private.to_owned();
        let cases = LiveCodeBenchCases { public_test_cases, private_test_cases, metadata: metadata.to_owned() };
        defect(&Task::code("q", TestsSource::LiveCodeBench(cases)))
    }

    #[test]
    fn questions_that_cannot_be_judged_are_named() {
        let test = r#"[{"input": "1", "output": "2"}]"#;
        assert_eq!(of(test, "", ""), None);
        for (public, private, metadata, words) in [
            (test, "eJx", "", "private_test_cases: "),
            (r#"[{"input": "1", "output": "x"}]"#, "", r#"{"func_name": "f"}"#, "test 0: the output is not JSON"),
            (
                r#"[{"input": "1", "output": "2", "testtype": "functional"}]"#,
                "",
                "",
                "public_test_cases: test 0 is functional",
            ),
            (r#"[{"input": "1", "output": " "}]"#, "", "", "no test expects an output"),
        ] {
            let found = of(public, private, metadata).unwrap_or_default();
            assert!(found.starts_with(words), "{public}: {found}");
        }
        assert_eq!(defect(&Task::math(["1".to_owned()]).unwrap()), None);
    }
}
