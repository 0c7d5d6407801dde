//! Tests in the column `tests`: a list of inputs with outputs, or lists of both.

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::LiveCodeBenchCases;
use serde_json::{Map, Value, json};

use crate::row::{kind, refused};

/// The column.
pub(crate) const TESTS: &str = "tests";
/// Columns that may name the function to call.
pub(crate) const FUNCTION: &[&str] = &["fn_name", "func_name", "function_name", "entry_point"];

/// Tests as LiveCodeBench has them, from `[{"input": ..., "output": ...}, ...]` or `{"inputs": [...], "outputs": [...], "fn_name": ...}`, as
/// JSON or as its text. `function` is what the row says to call.
///
/// # Errors
/// The path of the field that is something else, what it is, and what is allowed.
pub(crate) fn cases(column: &Value, function: Option<&str>) -> Result<LiveCodeBenchCases, FieldError> {
    let parsed;
    let column = match column {
        Value::String(text) => {
            parsed = serde_json::from_str::<Value>(text)
                .map_err(|error| refused(TESTS, format_args!("not JSON ({error})"), "a list of tests as JSON"))?;
            &parsed
        }
        other => other,
    };
    let function = function.or_else(|| column.get("fn_name")?.as_str()).filter(|name| !name.is_empty());
    let pairs: Vec<(String, &Value, &Value)> = match column {
        Value::Array(tests) => {
            let mut pairs = Vec::with_capacity(tests.len());
            for (index, test) in tests.iter().enumerate() {
                let place = format!("{TESTS}[{index}]");
                let absent = |name: &str| refused(format_args!("{place}.{name}"), "absent", "a text");
                let input = test.get("input").ok_or_else(|| absent("input"))?;
                let output = test.get("output").or_else(|| test.get("expected_output"));
                let output = output.ok_or_else(|| absent("output"))?;
                pairs.push((place, input, output));
            }
            pairs
        }
        Value::Object(lists) => {
            let (inputs, outputs) = (list(lists, "inputs")?, list(lists, "outputs")?);
            if inputs.len() != outputs.len() {
                let field = format!("the length of `{TESTS}.outputs`");
                let allowed = format!("{}, the length of `{TESTS}.inputs`", inputs.len());
                return Err(FieldError::new(field, outputs.len(), allowed));
            }
            let place = |index: usize| format!("{TESTS}.inputs[{index}]");
            inputs
                .iter()
                .zip(outputs)
                .enumerate()
                .map(|(index, (input, output))| (place(index), input, output))
                .collect()
        }
        other => return Err(refused(TESTS, kind(other), "a list of tests")),
    };
    if pairs.is_empty() {
        return Err(refused(TESTS, "empty", "at least one test"));
    }
    let testtype = if function.is_some() { "functional" } else { "stdin" };
    let case = |(place, input, output): (String, &Value, &Value)| {
        let texts = match function {
            Some(_) => (arguments(input), json_text(output)),
            None => (
                plain(input).ok_or_else(|| refused(&place, kind(input), "a text"))?,
                plain(output)
                    .ok_or_else(|| FieldError::new(format!("the output of `{place}`"), kind(output), "a text"))?,
            ),
        };
        Ok(json!({"input": texts.0, "output": texts.1, "testtype": testtype}))
    };
    let cases = pairs.into_iter().map(case).collect::<Result<Vec<_>, FieldError>>()?;
    let metadata = function.map_or_else(|| json!({}), |name| json!({"func_name": name}));
    Ok(LiveCodeBenchCases {
        public_test_cases: Value::from(cases).to_string(),
        private_test_cases: String::new(),
        metadata: metadata.to_string(),
    })
}

fn list<'a>(lists: &'a Map<String, Value>, name: &str) -> Result<&'a Vec<Value>, FieldError> {
    match lists.get(name) {
        Some(Value::Array(values)) => Ok(values),
        found => Err(refused(format_args!("{TESTS}.{name}"), found.map_or("absent", kind), "a list")),
    }
}

/// What a program reads or prints: a text, a number, or lines of them.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(lines) => lines.iter().map(plain).collect::<Option<Vec<_>>>().map(|lines| lines.join("\n")),
        Value::Null | Value::Bool(_) | Value::Object(_) => None,
    }
}

/// The arguments of a call, each on a line as JSON.
fn arguments(value: &Value) -> String {
    match value {
        Value::String(lines) => lines.clone(),
        Value::Array(values) => values.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"),
        other => other.to_string(),
    }
}

/// A result as JSON; a text that is JSON stays as it is.
fn json_text(value: &Value) -> String {
    match value {
        Value::String(text) if serde_json::from_str::<Value>(text).is_ok() => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str, function: Option<&str>) -> Result<(Value, Value), String> {
        let cases = cases(&serde_json::from_str(json).unwrap(), function).map_err(|error| error.to_string())?;
        let parsed = |text: &str| serde_json::from_str(text).unwrap();
        Ok((parsed(&cases.public_test_cases), parsed(&cases.metadata)))
    }

    #[test]
    fn tests_are_pairs_or_lists_as_json_or_as_its_text() {
        let stdin = json!([{"input": "1\n", "output": "2", "testtype": "stdin"}]);
        for tests in [
            r#"[{"input": "1\n", "output": "2"}]"#,
            r#"[{"input": "1\n", "expected_output": 2}]"#,
            r#"{"inputs": ["1\n"], "outputs": ["2"]}"#,
            r#""[{\"input\": \"1\\n\", \"output\": \"2\"}]""#,
        ] {
            assert_eq!(read(tests, None).unwrap(), (stdin.clone(), json!({})), "{tests}");
        }
        let lines = read(r#"[{"input": ["3", "1 2 3"], "output": [6]}]"#, None).unwrap().0;
        assert_eq!((&lines[0]["input"], &lines[0]["output"]), (&"3\n1 2 3".into(), &"6".into()));
    }

    #[test]
    fn with_a_function_inputs_are_its_arguments_and_outputs_its_results() {
        let expected = json!([{"input": "[1,2]\n3", "output": "[4]", "testtype": "functional"}]);
        for tests in [
            r#"{"inputs": [[[1, 2], 3]], "outputs": [[4]], "fn_name": "f"}"#,
            r#"{"inputs": ["[1,2]\n3"], "outputs": ["[4]"], "fn_name": "f"}"#,
        ] {
            assert_eq!(read(tests, None).unwrap(), (expected.clone(), json!({"func_name": "f"})), "{tests}");
        }
        let text = read(r#"[{"input": ["a"], "output": "b c"}]"#, Some("g")).unwrap();
        assert_eq!((&text.0[0]["input"], &text.0[0]["output"]), (&"\"a\"".into(), &"\"b c\"".into()));
    }

    #[test]
    fn what_is_not_a_list_of_tests_is_refused_by_its_field() {
        for (tests, words) in [
            (r#""[{""#, "`tests` is not JSON ("),
            ("3", "`tests` is a number, allowed: a list of tests"),
            ("[]", "`tests` is empty, allowed: at least one test"),
            (r#"[{"input": "1"}]"#, "`tests[0].output` is absent"),
            (r#"[{"input": {}, "output": "1"}]"#, "`tests[0]` is an object, allowed: a text"),
            (r#"{"inputs": ["1"]}"#, "`tests.outputs` is absent"),
            (
                r#"{"inputs": ["1"], "outputs": []}"#,
                "the length of `tests.outputs` is 0, allowed: 1, the length of `tests.inputs`",
            ),
        ] {
            let error = read(tests, None).unwrap_err();
            assert!(error.starts_with(words), "{tests}: {error}");
        }
    }
}
