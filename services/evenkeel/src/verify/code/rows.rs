//! Rows of questions and programs.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use evenkeel_proto::v1::code_task::TestsSource;
use evenkeel_proto::v1::{
    CodeLimits, CodeMode, CodeReward, CodeTask, LiveCodeBenchCases, VerifyItem, verify_item::Answer, verify_item::Task,
};
use evenkeel_sandbox::rows::{MAX_PRIVATE_BYTES, tests_of_row};
use serde_json::Value;

use crate::arguments::{CodeModeOption, VerifyCodeOptions};

/// A question with its tests.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) id: String,
    /// As the row has them.
    pub(super) tests: TestsSource,
    digest: String,
}

impl Question {
    /// The tests by their name alone.
    pub(super) fn named(&self) -> TestsSource {
        TestsSource::TestsDigest(self.digest.clone())
    }
}

/// One program to be judged.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) question_id: String,
    /// Its label, or its index in the row.
    pub(super) name: Value,
    answer: Answer,
    /// Unique in the file.
    id: String,
    /// What the row says should come out.
    pub(super) passed: Option<bool>,
    /// What the row says that LiveCodeBench's grader wrote down.
    pub(super) results: Option<Vec<i32>>,
}

/// A line of the file.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) question: Arc<Question>,
    pub(super) programs: Vec<Program>,
}

impl Row {
    /// Reads `{"question": {...}, "completion"}` or `{"question": {...}, "programs": [{"label", "completion" or "program"}]}`.
    pub(super) fn read(line: &str, number: usize) -> Result<Self> {
        let row: Value = serde_json::from_str(line).context("no JSON")?;
        let columns = row.get("question").filter(|question| question.is_object());
        let columns =
            columns.context("`question` is absent or no object, allowed: the columns of a LiveCodeBench row")?;
        let id = match columns.get("question_id") {
            None | Some(Value::Null) => format!("line {number}"),
            Some(id) => id.as_str().map_or_else(|| id.to_string(), str::to_owned),
        };
        let question = question(columns, id.clone()).with_context(|| format!("question `{id}`"));
        let question = question.map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let programs = match (row.get("programs"), row.get("completion").or_else(|| row.get("program"))) {
            (Some(Value::Array(programs)), _) => programs
                .iter()
                .enumerate()
                .map(|(index, program)| self::program(program, &id, number, index))
                .collect::<Result<_>>(),
            (Some(other), _) => bail!("question `{id}`: `programs` is {other}, allowed: a list"),
            (None, Some(_)) => program(&row, &id, number, 0).map(|program| vec![program]),
            (None, None) => bail!("question `{id}`: no program, allowed: `completion`, `program` or `programs`"),
        };
        let programs = programs.map_err(|error| anyhow::anyhow!("question `{id}`: {error}"))?;
        Ok(Self { question: Arc::new(question), programs })
    }
}

fn question(columns: &Value, id: String) -> Result<Question> {
    let column = |name: &str| match columns.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        // Some copies of the data set have their columns parsed.
        Some(other @ (Value::Array(_) | Value::Object(_))) => Ok(other.to_string()),
        Some(other) => bail!("`{name}` is {other}, allowed: a text"),
    };
    let cases = LiveCodeBenchCases {
        public_test_cases: column("public_test_cases")?,
        private_test_cases: column("private_test_cases")?,
        metadata: column("metadata")?,
    };
    let public = if cases.public_test_cases.is_empty() { "[]" } else { &cases.public_test_cases };
    let tests = tests_of_row(public, &cases.private_test_cases, &cases.metadata, MAX_PRIVATE_BYTES)?;
    let cases = LiveCodeBenchCases { public_test_cases: public.to_owned(), ..cases };
    Ok(Question { id, digest: tests.digest().to_owned(), tests: TestsSource::LiveCodeBench(cases) })
}

fn program(row: &Value, question: &str, number: usize, index: usize) -> Result<Program> {
    let answer = match (row.get("completion"), row.get("program")) {
        (Some(Value::String(text)), _) => Answer::Completion(text.clone()),
        (None, Some(Value::String(text))) => Answer::Extracted(text.clone()),
        (Some(other), _) => bail!("program {index}: `completion` is {other}, allowed: a text"),
        (None, Some(other)) => bail!("program {index}: `program` is {other}, allowed: a text"),
        (None, None) => {
            bail!("program {index} is absent, allowed: `completion` (a whole output) or `program` (its code)")
        }
    };
    let name = row.get("label").cloned().unwrap_or_else(|| index.into());
    let results = match row.get("lcb_results") {
        None | Some(Value::Null) => None,
        Some(Value::Array(results)) => Some(results.iter().map(result).collect::<Result<_>>()?),
        Some(other) => bail!("program {index}: `lcb_results` is {other}, allowed: a list of true, false and codes"),
    };
    Ok(Program {
        question_id: question.to_owned(),
        name,
        answer,
        id: format!("line {number} program {index}"),
        passed: row.get("passed").and_then(Value::as_bool),
        results,
    })
}

fn result(value: &Value) -> Result<i32> {
    let code = || value.as_i64().and_then(|code| i32::try_from(code).ok());
    let result = value.as_bool().map(i32::from).or_else(code);
    result.with_context(|| format!("`lcb_results` has {value}, allowed: true, false and codes"))
}

/// By which rules all programs are judged.
#[derive(Clone)]
pub(super) struct Rules {
    mode: CodeMode,
    limits: CodeLimits,
    run_all_tests: bool,
}

impl Rules {
    pub(super) fn of(options: &VerifyCodeOptions) -> Self {
        let mode = match options.mode {
            None => CodeMode::Unspecified,
            Some(CodeModeOption::Strict) => CodeMode::Strict,
            Some(CodeModeOption::Livecodebench) => CodeMode::LiveCodeBench,
        };
        let deterministic = options.deterministic.then_some(true);
        let limits = CodeLimits { cpu_ms: options.cpu_ms, deterministic, ..CodeLimits::default() };
        Self { mode, limits, run_all_tests: options.all_tests }
    }

    /// What is asked of the verifier.
    pub(super) fn item(&self, program: &Program, question: &Question, tests: TestsSource) -> VerifyItem {
        let task = CodeTask {
            question_id: question.id.clone(),
            tests_source: Some(tests),
            mode: self.mode.into(),
            limits: Some(self.limits),
            reward: CodeReward::AllOrNothing.into(),
            run_all_tests: self.run_all_tests,
            ..CodeTask::default()
        };
        VerifyItem {
            id: program.id.clone(),
            answer: Some(program.answer.clone()),
            task: Some(Task::Code(task)),
            ..VerifyItem::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &str =
        r#""question": {"question_id": "q", "public_test_cases": "[{\"input\": \"1\", \"output\": \"1\"}]"}"#;

    #[test]
    fn a_row_has_one_completion_or_a_list_of_programs() {
        let row = Row::read(&format!(r#"{{{QUESTION}, "completion": "text"}}"#), 3).unwrap();
        assert_eq!((row.programs.len(), row.programs[0].id.as_str()), (1, "line 3 program 0"));
        let programs =
            r#"[{"label": "a", "program": "x", "lcb_results": [true, -2], "passed": false}, {"completion": "y"}]"#;
        let row = Row::read(&format!(r#"{{{QUESTION}, "programs": {programs}}}"#), 1).unwrap();
        assert_eq!((row.programs[0].name.clone(), row.programs[1].name.clone()), ("a".into(), 1.into()));
        assert_eq!(row.programs[0].results, Some(vec![1, -2]));
        assert_eq!((row.programs[0].passed, row.programs[1].passed), (Some(false), None));
        assert_eq!(row.programs[0].answer, Answer::Extracted("x".into()));
    }

    #[test]
    fn what_cannot_be_read_is_named_by_question_and_field() {
        let refused = |line: &str| Row::read(line, 1).unwrap_err().to_string();
        assert!(refused("rubbish").contains("no JSON"));
        assert!(refused(r#"{"completion": "x"}"#).starts_with("`question` is absent"));
        assert_eq!(
            refused(&format!("{{{QUESTION}}}")),
            "question `q`: no program, allowed: `completion`, `program` or `programs`"
        );
        assert_eq!(
            refused(r#"{"question": {"question_id": "q"}, "completion": "x"}"#),
            "question `q`: public_test_cases: no tests"
        );
        let private = QUESTION.replace(r#""question_id""#, r#""private_test_cases": "!!", "question_id""#);
        let error = refused(&format!(r#"{{{private}, "completion": "x"}}"#));
        assert!(error.starts_with("question `q`: private_test_cases: neither a JSON array nor base64"), "{error}");
        let error = refused(&format!(r#"{{{QUESTION}, "programs": [{{"completion": 3}}]}}"#));
        assert_eq!(error, "question `q`: program 0: `completion` is 3, allowed: a text");
    }
}
