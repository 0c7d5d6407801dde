//! Programming questions: tests in the columns that LiveCodeBench publishes or in `tests`, and the words of the
//! question.

use evenkeel_chat::Prompt;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::LiveCodeBenchCases;
use evenkeel_proto::v1::code_task::TestsSource;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::row::{DataRow, RowError, kind, refused, text};
use crate::tests_column::{self, FUNCTION, TESTS};
use crate::{Reason, Task, livecodebench, other_language};

/// Every column that a question is read from.
pub(crate) const COLUMNS: &[&str] = &[
    NESTED,
    PUBLIC,
    PRIVATE,
    METADATA,
    CONTENT,
    STARTER_CODE,
    "question_id",
    "tests",
    "input_output",
    "test_cases",
    "verification_info",
    "fn_name",
    "func_name",
    "function_name",
    "entry_point",
    "language",
    "lang",
    "programming_language",
];

const CONTENT: &str = "question_content";
const STARTER_CODE: &str = "starter_code";
const PUBLIC: &str = "public_test_cases";
const PRIVATE: &str = "private_test_cases";
const METADATA: &str = "metadata";
/// Where the columns may stand together instead of in the row itself.
const NESTED: &str = "question";
/// Where verl has the tests of a programming question, as it has gold answers.
const GROUND_TRUTH: &str = "reward_model.ground_truth";

/// The question of a row with tests; `None` for a row without. The tests themselves are read by the reward service.
pub(crate) fn task(row: &DataRow) -> Result<Option<Task>, RowError> {
    let nested = row.get(NESTED).is_some_and(|question| question.is_object());
    let path = |name: &str| if nested { format!("{NESTED}.{name}") } else { name.to_owned() };
    let published = is_published(row);
    let column_of_tests = tests_column(row);
    if !published && column_of_tests.is_none() {
        return Ok(None);
    }
    let id = match row.get(&path("question_id")) {
        Some(id) => text("question_id", id).unwrap_or_else(|_| id.to_string()),
        None => row.location().to_string(),
    };
    other_language::check(row, starter_code(row, &path(CONTENT)))
        .map_err(|error| RowError { reason: Reason::OtherLanguage, ..invalid(&id, error) })?;
    if let (false, Some(name)) = (published, column_of_tests) {
        let json = row.json(name).unwrap_or_default();
        let cases = tests_column::cases(name, &json, function(row)).map_err(|error| invalid(&id, error))?;
        return Ok(Some(Task::code(id, TestsSource::LiveCodeBench(cases))));
    }
    let column = |name: &str| match row.get(&path(name)) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        // Some copies of the data set have their columns parsed.
        Some(Value::Array(_) | Value::Object(_)) => Ok(row.json(&path(name)).unwrap_or_default()),
        Some(other) => Err(invalid(&id, refused(name, kind(other), "a text"))),
    };
    let public = column(PUBLIC)?;
    let private_test_cases = column(PRIVATE)?;
    let metadata = column(METADATA)?;
    if is_empty(&public) && is_empty(&private_test_cases) {
        let allowed = format!("at least one test in {PUBLIC} or {PRIVATE}");
        return Err(invalid(&id, refused(PUBLIC, "empty", allowed)));
    }
    if !metadata.trim().is_empty()
        && let Err(error) = serde_json::from_str::<IgnoredAny>(&metadata)
    {
        return Err(invalid(&id, refused(METADATA, format_args!("not JSON ({error})"), "a JSON object")));
    }
    for (name, column) in [(PUBLIC, &public), (PRIVATE, &private_test_cases)] {
        // What LiveCodeBench encodes is left to the reward service, which decodes it.
        if !(is_empty(column) || name == PRIVATE && is_base64(column)) {
            tests_column::check(name, column).map_err(|error| invalid(&id, error))?;
        }
    }
    let public_test_cases = if public.is_empty() { "[]".to_owned() } else { public };
    let cases = LiveCodeBenchCases { public_test_cases, private_test_cases, metadata };
    Ok(Some(Task::code(id, TestsSource::LiveCodeBench(cases))))
}

/// Checks what makes a question useless for training although it can be judged.
///
/// # Errors
/// No test expects an output, so that a program that does nothing passes.
pub(crate) fn check_outputs(task: &Task) -> Result<(), RowError> {
    let Some(TestsSource::LiveCodeBench(cases)) = task.tests() else { return Ok(()) };
    let blank = |column: &str| is_empty(column) || tests_column::expects_nothing(column);
    if blank(&cases.public_test_cases) && blank(&cases.private_test_cases) {
        let error = refused("output", "empty in every test", "an output that not every program has");
        Err(invalid(task.question_id(), error))
    } else {
        Ok(())
    }
}

/// Whether a row has the columns of LiveCodeBench.
fn is_published(row: &DataRow) -> bool {
    row.get(NESTED).is_some_and(Value::is_object) || row.get(PUBLIC).is_some() || row.get(PRIVATE).is_some()
}

/// The column with the tests of a row that has not the columns of LiveCodeBench.
fn tests_column(row: &DataRow) -> Option<&'static str> {
    let usual = TESTS.iter().copied().find(|name| row.get(name).is_some());
    usual.or_else(|| row.get(GROUND_TRUTH).is_some_and(is_tests).then_some(GROUND_TRUTH))
}

/// Whether a gold answer is tests instead: lists of inputs and outputs, or a list of tests.
fn is_tests(value: &Value) -> bool {
    let parsed;
    let value = match value {
        Value::String(text) if text.trim_start().starts_with(['{', '[']) && text.contains("\"input") => {
            parsed = serde_json::from_str::<Value>(text).unwrap_or_default();
            &parsed
        }
        other => other,
    };
    value.get("inputs").is_some() && value.get("outputs").is_some()
        || value.get(0).is_some_and(|test| test.get("input").is_some())
}

/// What is wrong with the tests of a question.
fn invalid(id: &str, error: FieldError) -> RowError {
    let field = format!("question `{id}`: {}", error.field);
    RowError::field(Reason::InvalidTests, FieldError { field, ..error })
}

/// Whether a row has tests, whatever they are.
pub(crate) fn has_tests(row: &DataRow) -> bool {
    is_published(row) || tests_column(row).is_some()
}

/// The function that a row says to call.
fn function(row: &DataRow) -> Option<&str> {
    FUNCTION.iter().find_map(|name| row.get(name)?.as_str())
}

/// The function that the tests call. `None` if they give a program standard input.
fn called(row: &DataRow) -> Option<String> {
    let task = task(row).ok()??;
    let Some(TestsSource::LiveCodeBench(cases)) = task.tests() else { return None };
    let name_in = |json: &str, names: &[&str]| {
        let value = serde_json::from_str::<Value>(json).ok()?;
        let name = names.iter().find_map(|name| value.get(name)?.as_str())?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    let by_tests = || {
        let tests: Vec<Value> = serde_json::from_str(&cases.public_test_cases).ok()?;
        let test = tests.first()?;
        name_in(&test.to_string(), FUNCTION).or_else(|| name_in(&test.get("metadata")?.to_string(), &["func_name"]))
    };
    name_in(&cases.metadata, &["func_name"]).or_else(by_tests)
}

/// The starter code next to the statement, in the column `name`.
fn starter_code<'a>(row: &'a DataRow, name: &str) -> Option<&'a str> {
    let parent = name.rsplit_once('.').map_or("", |(parent, _)| parent);
    let path = if parent.is_empty() { STARTER_CODE.to_owned() } else { format!("{parent}.{STARTER_CODE}") };
    row.get(&path)?.as_str().filter(|code| !code.trim().is_empty())
}

/// The statement of a question in the words of LiveCodeBench, which say how it is judged: by a call of a function, or
/// by what a program prints for its standard input. `name` is the column of the statement.
pub(crate) fn in_words_of_livecodebench(row: &DataRow, name: &str, statement: &str) -> Prompt {
    let starter = called(row)
        .map(|function| starter_code(row, name).map_or_else(|| format!("def {function}(...):"), str::to_owned));
    livecodebench::prompt(statement, starter.as_deref())
}

/// The statement of a question followed by its starter code, if there is such code.
pub(crate) fn with_starter_code(row: &DataRow, name: &str, statement: &str) -> String {
    match starter_code(row, name) {
        Some(code) => format!("{statement}\n\nStarter code:\n```python\n{}\n```", code.trim_end()),
        None => statement.to_owned(),
    }
}

/// Whether a column may be tests as LiveCodeBench encodes them.
fn is_base64(column: &str) -> bool {
    let base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'\n' | b'\r');
    column.trim().bytes().all(base64)
}

fn is_empty(column: &str) -> bool {
    matches!(column.trim(), "" | "[]")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = r#"[{"input": "1", "output": "2"}]"#;

    fn read(json: &str) -> Result<Option<LiveCodeBenchCases>, String> {
        let row = DataRow::parse(3, json).unwrap();
        let task = task(&row).map_err(|error| error.to_string())?;
        Ok(task.map(|task| match task.tests() {
            Some(TestsSource::LiveCodeBench(cases)) => cases.clone(),
            other => panic!("{other:?}"),
        }))
    }

    #[test]
    fn columns_are_taken_as_published_or_parsed_in_the_row_or_in_its_question() {
        let cases =
            read(&format!(r#"{{"public_test_cases": {:?}, "private_test_cases": "eJx", "metadata": "{{}}"}}"#, TEST))
                .unwrap();
        let cases = cases.unwrap();
        assert_eq!((cases.public_test_cases.as_str(), cases.private_test_cases.as_str()), (TEST, "eJx"));
        let cases =
            read(&format!(r#"{{"question": {{"public_test_cases": {TEST}, "metadata": {{"func_name": "f"}}}}}}"#));
        let cases = cases.unwrap().unwrap();
        assert_eq!(cases.public_test_cases, TEST);
        assert_eq!(cases.metadata, r#"{"func_name": "f"}"#);
        assert_eq!(read(r#"{"private_test_cases": "eJx"}"#).unwrap().unwrap().public_test_cases, "[]");
        assert_eq!(read(r#"{"question": "1+1?", "answer": "2"}"#), Ok(None));
    }

    #[test]
    fn tests_may_stand_in_a_column_of_their_own() {
        let cases = read(r#"{"tests": [{"input": "1", "output": "2"}]}"#).unwrap().unwrap();
        assert_eq!(cases.public_test_cases, r#"[{"input":"1","output":"2","testtype":"stdin"}]"#);
        let cases = read(r#"{"tests": [{"input": [1], "output": 2}], "fn_name": "f"}"#).unwrap().unwrap();
        assert_eq!((cases.metadata.as_str(), cases.private_test_cases.as_str()), (r#"{"func_name":"f"}"#, ""));
        let error = read(r#"{"question_id": "q", "tests": "[{"}"#).unwrap_err();
        assert!(error.starts_with("question `q`: `tests` is not JSON"), "{error}");
    }

    #[test]
    fn a_question_without_tests_is_refused_by_its_name() {
        let error = read(r#"{"question": {"question_id": "q", "public_test_cases": "[]"}}"#).unwrap_err();
        assert!(error.starts_with("question `q`: `public_test_cases` is empty, allowed: at least one test"), "{error}");
        let error = read(r#"{"public_test_cases": 3}"#).unwrap_err();
        assert_eq!(error, "question `line 3`: `public_test_cases` is a number, allowed: a text");
    }

    #[test]
    fn tests_that_are_not_json_are_refused_by_their_column() {
        for (json, words) in [
            (r#"{"question_id": "q", "public_test_cases": "[{"}"#, "question `q`: `public_test_cases` is not JSON"),
            (r#"{"private_test_cases": "[{\"input\": 1]"}"#, "`private_test_cases` is not JSON"),
            (r#"{"private_test_cases": "eJx", "metadata": "func_name"}"#, "`metadata` is not JSON"),
            (r#"{"public_test_cases": "[{}]"}"#, "`public_test_cases[0].input` is absent"),
            (r#"{"private_test_cases": [{"input": "1"}]}"#, "`private_test_cases[0].output` is absent"),
            (r#"{"public_test_cases": [{"input": "1", "output": null}]}"#, "`public_test_cases[0].output` is absent"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(words), "{json}: {error}");
        }
    }

    #[test]
    fn rows_of_apps_taco_and_verl_are_read() {
        let tests = r#"{"inputs": [[1, 2]], "outputs": [[3]], "fn_name": "f"}"#;
        let quoted = serde_json::to_string(tests).unwrap();
        for row in [
            format!(r#"{{"question": "Add.", "input_output": {quoted}, "starter_code": "def f(a, b):"}}"#),
            format!(r#"{{"question": "Add.", "input_output": {tests}}}"#),
            format!(r#"{{"prompt": "Add.", "reward_model": {{"ground_truth": {quoted}}}}}"#),
            format!(r#"{{"prompt": "Add.", "verification_info": {{"test_cases": {tests}}}}}"#),
        ] {
            let cases = read(&row).unwrap().unwrap();
            let test = r#"[{"input":"1\n2","output":"[3]","testtype":"functional","alternatives":["3"]}]"#;
            assert_eq!((cases.public_test_cases.as_str(), cases.metadata.as_str()), (test, r#"{"func_name":"f"}"#));
        }
        for math in [r#""{1, 2}""#, r#""[1, 2]""#, r#""42""#, "[1, 2]"] {
            assert_eq!(read(&format!(r#"{{"reward_model": {{"ground_truth": {math}}}}}"#)), Ok(None), "{math}");
        }
    }

    #[test]
    fn the_prompt_says_how_the_program_is_judged() {
        let asked = |json: &str| {
            let row = DataRow::parse(1, json).unwrap();
            match in_words_of_livecodebench(&row, "prompt", "Double x.") {
                Prompt::Either { text, .. } => text,
                other => panic!("{other:?}"),
            }
        };
        let stdin = "Read the inputs from stdin";
        for tests in [
            r#""tests": [{"input": "1", "output": "2", "testtype": "functional", "fn_name": "f"}]"#,
            r#""tests": {"inputs": [[1]], "outputs": [2], "fn_name": "f"}"#,
            r#""tests": [{"input": "1", "output": "2"}], "entry_point": "f""#,
            r#""public_test_cases": [{"input": "1", "output": "2"}], "metadata": "{\"func_name\": \"f\"}""#,
            r#""public_test_cases": [{"input": "1", "output": "2", "metadata": {"func_name": "f"}}]"#,
        ] {
            let text = asked(&format!("{{{tests}}}"));
            assert!(text.contains("def f(...):") && !text.contains(stdin), "{tests}: {text}");
            let text = asked(&format!(r#"{{{tests}, "starter_code": "def f(x): pass"}}"#));
            assert!(text.contains("def f(x): pass"), "{tests}: {text}");
        }
        let text = asked(r#"{"tests": [{"input": "1", "output": "2"}], "starter_code": "def main(): pass"}"#);
        assert!(text.contains(stdin) && !text.contains("main"), "{text}");
    }

    #[test]
    fn questions_without_any_expected_output_are_useless() {
        let check = |tests: &str| {
            let row = DataRow::parse(1, format!(r#"{{"tests": {tests}}}"#)).unwrap();
            check_outputs(&task(&row).unwrap().unwrap()).map_err(|error| error.to_string())
        };
        let error = check(r#"[{"input": "1", "output": ""}, {"input": "2", "output": " \n"}]"#).unwrap_err();
        assert!(error.contains("`output` is empty in every test"), "{error}");
        assert_eq!(check(r#"[{"input": "1", "output": ""}, {"input": "2", "output": "0"}]"#), Ok(()));
        assert_eq!(check(r#"{"inputs": [[1]], "outputs": [""], "fn_name": "f"}"#), Ok(()));
    }

    #[test]
    fn starter_code_stands_behind_the_statement() {
        let row = |json: &str| DataRow::parse(1, json).unwrap();
        let nested = row(r#"{"question": {"starter_code": "def f(x):\n"}}"#);
        let statement = with_starter_code(&nested, "question.question_content", "Double x.");
        assert_eq!(statement, "Double x.\n\nStarter code:\n```python\ndef f(x):\n```");
        let plain = row(r#"{"question_content": "a", "starter_code": " "}"#);
        assert_eq!(with_starter_code(&plain, "question_content", "a"), "a");
    }
}
