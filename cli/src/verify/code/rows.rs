//! Rows with questions and programs.

use std::sync::Arc;

use anyhow::{Context, Result};
use evenkeel_data::{CodeRules, DataRow as Columns, Fields, Rules, Task};
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::code_task::TestsSource;
use evenkeel_proto::v1::{CodeLimits, CodeMode, CodeReward, VerifyItem, verify_item::Answer};
use evenkeel_sandbox::rows::{MAX_PRIVATE_BYTES, tests_of_row};
use serde_json::Value;

use crate::arguments::{CodeModeOption, VerifyCodeOptions};

/// A question with its tests.
#[derive(Debug)]
pub(super) struct Question {
    /// With the tests of the row.
    pub(super) task: Task,
    /// With only the digest of the tests.
    pub(super) by_digest: Task,
}

/// A program to judge.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) question_id: String,
    /// Label of the case, or its index in the row.
    pub(super) name: Value,
    answer: Answer,
    /// Unique in the file.
    id: String,
    /// The expectation in the row.
    pub(super) passed: Option<bool>,
    /// The results of LiveCodeBench's grader according to the row.
    pub(super) results: Option<Vec<i32>>,
}

/// A line of the file.
#[derive(Debug)]
pub(super) struct ProgramRow {
    pub(super) question: Arc<Question>,
    pub(super) programs: Vec<Program>,
}

impl ProgramRow {
    /// Reads a row with `completion` or `program`, or with `programs: [{"label", "completion" or "program"}]`.
    pub(super) fn read(row: &Columns, rules: &Rules) -> Result<Self> {
        let number = row.number();
        let task = Fields::default().code(row)?.with_rules(rules);
        let id = task.question_id().to_owned();
        let question = question(task).with_context(|| format!("question `{id}`"));
        let question = question.map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let programs = match (row.get("programs"), row.get("completion").or_else(|| row.get("program"))) {
            (Some(Value::Array(programs)), _) => programs
                .iter()
                .enumerate()
                .map(|(index, program)| {
                    let get = |name: &str| program.get(name).filter(|value| !value.is_null());
                    self::program(&get, &id, number, index).map_err(|error| error.within(format!("programs[{index}]")))
                })
                .collect::<Result<_, FieldError>>(),
            (Some(other), _) => Err(FieldError::new("programs", other, "a list")),
            (None, Some(_)) => program(&|name| row.get(name), &id, number, 0).map(|program| vec![program]),
            (None, None) => Err(FieldError::missing("program", "`completion`, `program` or `programs`")),
        };
        let programs = programs.map_err(|error| anyhow::anyhow!("question `{id}`: {error}"))?;
        Ok(Self { question: Arc::new(question), programs })
    }
}

/// Parses the tests, to compute their digest and find their defects before any program is sent.
fn question(task: Task) -> Result<Question> {
    let digest = match task.tests() {
        Some(TestsSource::LiveCodeBench(cases)) => {
            let public = &cases.public_test_cases;
            let private = &cases.private_test_cases;
            tests_of_row(public, private, &cases.metadata, MAX_PRIVATE_BYTES)?.digest().to_owned()
        }
        _ => return Err(FieldError::missing("tests", "the columns of a LiveCodeBench row").into()),
    };
    let by_digest = task.with_tests(TestsSource::TestsDigest(digest));
    Ok(Question { task, by_digest })
}

fn program<'a>(
    get: &dyn Fn(&str) -> Option<&'a Value>,
    question: &str,
    number: usize,
    index: usize,
) -> Result<Program, FieldError> {
    let answer = match (get("completion"), get("program")) {
        (Some(Value::String(text)), _) => Answer::Completion(text.clone()),
        (None, Some(Value::String(text))) => Answer::Extracted(text.clone()),
        (Some(other), _) => return Err(FieldError::new("completion", other, "a text")),
        (None, Some(other)) => return Err(FieldError::new("program", other, "a text")),
        (None, None) => {
            return Err(FieldError::missing("program", "`completion` (a whole output) or `program` (its code)"));
        }
    };
    let name = get("label").cloned().unwrap_or_else(|| index.into());
    let results = match get("lcb_results") {
        None => None,
        Some(Value::Array(results)) => Some(results.iter().map(result).collect::<Result<_, FieldError>>()?),
        Some(other) => return Err(FieldError::new("lcb_results", other, "a list of true, false and codes")),
    };
    Ok(Program {
        question_id: question.to_owned(),
        name,
        answer,
        id: format!("line {number} program {index}"),
        passed: get("passed").and_then(Value::as_bool),
        results,
    })
}

fn result(value: &Value) -> Result<i32, FieldError> {
    let code = || value.as_i64().and_then(|code| i32::try_from(code).ok());
    let result = value.as_bool().map(i32::from).or_else(code);
    result.ok_or_else(|| FieldError::new("lcb_results[]", value, "true, false or a code"))
}

/// The rules for all programs.
pub(super) fn rules(options: &VerifyCodeOptions) -> Rules {
    let mode = match options.mode {
        None => CodeMode::Unspecified,
        Some(CodeModeOption::Strict) => CodeMode::Strict,
        Some(CodeModeOption::Livecodebench) => CodeMode::LiveCodeBench,
    };
    let deterministic = options.deterministic.then_some(true);
    let limits = CodeLimits { cpu_ms: options.cpu_ms, deterministic, ..CodeLimits::default() };
    let code = CodeRules {
        mode,
        limits,
        reward: CodeReward::AllOrNothing,
        run_all_tests: options.all_tests,
        float_tolerance: options.float_tolerance,
    };
    Rules { code, ..Rules::default() }
}

impl Program {
    /// The item for the verifier.
    pub(super) fn item(&self, task: &Task) -> VerifyItem {
        task.verify_item(&self.id, self.answer.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &str =
        r#""question": {"question_id": "q", "public_test_cases": "[{\"input\": \"1\", \"output\": \"1\"}]"}"#;

    fn read(line: &str, number: usize) -> Result<ProgramRow> {
        ProgramRow::read(&Columns::parse(number, line)?, &Rules::default())
    }

    #[test]
    fn a_row_has_one_completion_or_a_list_of_programs() {
        let row = read(&format!(r#"{{{QUESTION}, "completion": "text"}}"#), 3).unwrap();
        assert_eq!((row.programs.len(), row.programs[0].id.as_str()), (1, "line 3 program 0"));
        let programs =
            r#"[{"label": "a", "program": "x", "lcb_results": [true, -2], "passed": false}, {"completion": "y"}]"#;
        let row = read(&format!(r#"{{{QUESTION}, "programs": {programs}}}"#), 1).unwrap();
        assert_eq!((row.programs[0].name.clone(), row.programs[1].name.clone()), ("a".into(), 1.into()));
        assert_eq!(row.programs[0].results, Some(vec![1, -2]));
        assert_eq!((row.programs[0].passed, row.programs[1].passed), (Some(false), None));
        assert_eq!(row.programs[0].answer, Answer::Extracted("x".into()));
    }

    #[test]
    fn invalid_rows_are_refused_by_question_and_field() {
        let refused = |line: &str| read(line, 1).unwrap_err().to_string();
        assert!(refused("rubbish").contains("not JSON"));
        assert!(refused(r#"{"completion": "x"}"#).starts_with("no tests, allowed: the columns of a LiveCodeBench row"));
        assert_eq!(
            refused(&format!("{{{QUESTION}}}")),
            "question `q`: program is absent, required: `completion`, `program` or `programs`"
        );
        let error = refused(r#"{"question": {"question_id": "q"}, "completion": "x"}"#);
        assert!(error.starts_with("question `q`: `public_test_cases` is empty, allowed: at least one test"), "{error}");
        let private = QUESTION.replace(r#""question_id""#, r#""private_test_cases": "!!", "question_id""#);
        let error = refused(&format!(r#"{{{private}, "completion": "x"}}"#));
        assert!(error.starts_with("question `q`: `private_test_cases` is not JSON"), "{error}");
        let error = refused(&format!(r#"{{{QUESTION}, "programs": [{{"completion": 3}}]}}"#));
        assert_eq!(error, "question `q`: programs[0].completion is 3, allowed: a text");
    }
}
