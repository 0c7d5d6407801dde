//! Tests of programs, in the columns that LiveCodeBench publishes.

use evenkeel_proto::v1::LiveCodeBenchCases;
use evenkeel_proto::v1::code_task::TestsSource;
use serde_json::Value;

use crate::Task;
use crate::row::{Row, RowError, kind, text};

const PUBLIC: &str = "public_test_cases";
const PRIVATE: &str = "private_test_cases";
const METADATA: &str = "metadata";
/// Where the columns may stand together instead of in the row itself.
const NESTED: &str = "question";

/// The question of a row with tests; `None` for a row without. The tests themselves are read by the reward service.
pub(crate) fn task(row: &Row) -> Result<Option<Task>, RowError> {
    let nested = row.get(NESTED).is_some_and(|question| question.is_object());
    let path = |name: &str| if nested { format!("{NESTED}.{name}") } else { name.to_owned() };
    if !nested && row.get(PUBLIC).is_none() && row.get(PRIVATE).is_none() {
        return Ok(None);
    }
    let id = match row.get(&path("question_id")) {
        Some(id) => text("question_id", id).unwrap_or_else(|_| id.to_string()),
        None => format!("line {}", row.number()),
    };
    let column = |name: &str| match row.get(&path(name)) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        // Some copies of the data set have their columns parsed.
        Some(other @ (Value::Array(_) | Value::Object(_))) => Ok(other.to_string()),
        Some(other) => Err(RowError(format!("question `{id}`: `{name}` is {}, allowed: a text", kind(other)))),
    };
    let (public, private_test_cases, metadata) = (column(PUBLIC)?, column(PRIVATE)?, column(METADATA)?);
    if is_empty(&public) && is_empty(&private_test_cases) {
        return Err(RowError(format!(
            "question `{id}`: {PUBLIC}: no tests, allowed: at least one test in {PUBLIC} or {PRIVATE}"
        )));
    }
    let public_test_cases = if public.is_empty() { "[]".to_owned() } else { public };
    let cases = LiveCodeBenchCases { public_test_cases, private_test_cases, metadata };
    Ok(Some(Task::code(id, TestsSource::LiveCodeBench(cases))))
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
    fn a_question_without_tests_is_refused_by_its_name() {
        let error = read(r#"{"question": {"question_id": "q", "public_test_cases": "[]"}}"#).unwrap_err();
        assert!(error.starts_with("question `q`: public_test_cases: no tests"), "{error}");
        let error = read(r#"{"public_test_cases": 3}"#).unwrap_err();
        assert_eq!(error, "question `line 3`: `public_test_cases` is a number, allowed: a text");
    }
}
