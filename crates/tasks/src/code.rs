//! Programming questions: tests in the columns that LiveCodeBench publishes or in `tests`, and the words of the question.

use evenkeel_chat::Prompt;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::LiveCodeBenchCases;
use evenkeel_proto::v1::code_task::TestsSource;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::row::{Row, RowError, kind, refused, text};
use crate::tests_column::{self, FUNCTION, TESTS};
use crate::{Reason, Task, livecodebench};

/// Every column that a question is read from.
pub(crate) const COLUMNS: &[&str] = &[
    NESTED,
    PUBLIC,
    PRIVATE,
    METADATA,
    CONTENT,
    STARTER_CODE,
    "question_id",
    TESTS,
    "fn_name",
    "func_name",
    "function_name",
    "entry_point",
];

const CONTENT: &str = "question_content";
const STARTER_CODE: &str = "starter_code";
const PUBLIC: &str = "public_test_cases";
const PRIVATE: &str = "private_test_cases";
const METADATA: &str = "metadata";
/// Where the columns may stand together instead of in the row itself.
const NESTED: &str = "question";

/// The question of a row with tests; `None` for a row without. The tests themselves are read by the reward service.
pub(crate) fn task(row: &Row) -> Result<Option<Task>, RowError> {
    let nested = row.get(NESTED).is_some_and(|question| question.is_object());
    let path = |name: &str| if nested { format!("{NESTED}.{name}") } else { name.to_owned() };
    let published = nested || row.get(PUBLIC).is_some() || row.get(PRIVATE).is_some();
    if !published && row.get(TESTS).is_none() {
        return Ok(None);
    }
    let id = match row.get(&path("question_id")) {
        Some(id) => text("question_id", id).unwrap_or_else(|_| id.to_string()),
        None => row.location().to_string(),
    };
    if !published && let Some(tests) = row.get(TESTS) {
        let cases = tests_column::cases(tests, function(row)).map_err(|error| invalid(&id, error))?;
        return Ok(Some(Task::code(id, TestsSource::LiveCodeBench(cases))));
    }
    let column = |name: &str| match row.get(&path(name)) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        // Some copies of the data set have their columns parsed.
        Some(other @ (Value::Array(_) | Value::Object(_))) => Ok(other.to_string()),
        Some(other) => Err(invalid(&id, refused(name, kind(other), "a text"))),
    };
    let (public, private_test_cases, metadata) = (column(PUBLIC)?, column(PRIVATE)?, column(METADATA)?);
    if is_empty(&public) && is_empty(&private_test_cases) {
        let allowed = format!("at least one test in {PUBLIC} or {PRIVATE}");
        return Err(invalid(&id, refused(PUBLIC, "empty", allowed)));
    }
    for (name, column, allowed) in [
        (PUBLIC, &public, "a list of tests as JSON"),
        (PRIVATE, &private_test_cases, "a list of tests as JSON, or as LiveCodeBench encodes it (base64)"),
        (METADATA, &metadata, "a JSON object"),
    ] {
        if let Err(error) = validate_json(column, name == PRIVATE) {
            return Err(invalid(&id, refused(name, format_args!("not JSON ({error})"), allowed)));
        }
    }
    let public_test_cases = if public.is_empty() { "[]".to_owned() } else { public };
    let cases = LiveCodeBenchCases { public_test_cases, private_test_cases, metadata };
    Ok(Some(Task::code(id, TestsSource::LiveCodeBench(cases))))
}

/// What is wrong with the tests of a question.
fn invalid(id: &str, error: FieldError) -> RowError {
    let field = format!("question `{id}`: {}", error.field);
    RowError::field(Reason::InvalidTests, FieldError { field, ..error })
}

/// Whether a row has tests, whatever they are.
pub(crate) fn has_tests(row: &Row) -> bool {
    let nested = row.get(NESTED).is_some_and(Value::is_object);
    nested || [PUBLIC, PRIVATE, TESTS].iter().any(|name| row.get(name).is_some())
}

/// The function that a row says to call.
fn function(row: &Row) -> Option<&str> {
    FUNCTION.iter().find_map(|name| row.get(name)?.as_str())
}

/// The starter code next to the statement, in the column `name`.
fn starter_code<'a>(row: &'a Row, name: &str) -> Option<&'a str> {
    let parent = name.rsplit_once('.').map_or("", |(parent, _)| parent);
    let path = if parent.is_empty() { STARTER_CODE.to_owned() } else { format!("{parent}.{STARTER_CODE}") };
    row.get(&path)?.as_str().filter(|code| !code.trim().is_empty())
}

/// The statement of a question in the words of LiveCodeBench; `name` is the column of the statement.
pub(crate) fn in_words_of_livecodebench(row: &Row, name: &str, statement: &str) -> Prompt {
    let named = || function(row).map(|function| format!("def {function}(...):"));
    livecodebench::prompt(statement, starter_code(row, name).map(str::to_owned).or_else(named).as_deref())
}

/// The statement of a question followed by its starter code, if there is such code.
pub(crate) fn with_starter_code(row: &Row, name: &str, statement: &str) -> String {
    match starter_code(row, name) {
        Some(code) => format!("{statement}\n\nStarter code:\n```python\n{}\n```", code.trim_end()),
        None => statement.to_owned(),
    }
}

/// What a column says where it is not JSON. Base64 is left to the reward service, which decodes it.
fn validate_json(column: &str, may_be_encoded: bool) -> Result<(), serde_json::Error> {
    let column = column.trim();
    let base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'\n' | b'\r');
    if column.is_empty() || (may_be_encoded && column.bytes().all(base64)) {
        return Ok(());
    }
    serde_json::from_str::<IgnoredAny>(column).map(drop)
}

fn is_empty(column: &str) -> bool {
    matches!(column.trim(), "" | "[]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Option<LiveCodeBenchCases>, String> {
        let row = Row::parse(3, json).unwrap();
        let task = task(&row).map_err(|error| error.to_string())?;
        Ok(task.map(|task| match task.tests() {
            Some(TestsSource::LiveCodeBench(cases)) => cases.clone(),
            other => panic!("{other:?}"),
        }))
    }

    #[test]
    fn columns_are_taken_as_published_or_parsed_in_the_row_or_in_its_question() {
        let cases = read(r#"{"public_test_cases": "[{}]", "private_test_cases": "eJx", "metadata": "{}"}"#).unwrap();
        let cases = cases.unwrap();
        assert_eq!((cases.public_test_cases.as_str(), cases.private_test_cases.as_str()), ("[{}]", "eJx"));
        let cases = read(r#"{"question": {"public_test_cases": [{"input": "1"}], "metadata": {"func_name": "f"}}}"#);
        let cases = cases.unwrap().unwrap();
        assert_eq!(cases.public_test_cases, r#"[{"input":"1"}]"#);
        assert_eq!(cases.metadata, r#"{"func_name":"f"}"#);
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
            (r#"{"public_test_cases": "[{}]", "metadata": "func_name"}"#, "`metadata` is not JSON"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(words), "{json}: {error}");
        }
    }

    #[test]
    fn starter_code_stands_behind_the_statement() {
        let row = |json: &str| Row::parse(1, json).unwrap();
        let nested = row(r#"{"question": {"starter_code": "def f(x):\n"}}"#);
        let statement = with_starter_code(&nested, "question.question_content", "Double x.");
        assert_eq!(statement, "Double x.\n\nStarter code:\n```python\ndef f(x):\n```");
        let plain = row(r#"{"question_content": "a", "starter_code": " "}"#);
        assert_eq!(with_starter_code(&plain, "question_content", "a"), "a");
    }
}
