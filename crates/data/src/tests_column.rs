//! Tests in a column of their own: a list of inputs with outputs, or lists of both.
//!
//! The JSON is read as it is written, so that integers beyond 64 bits and the decimals of floats stay as they are.

use std::collections::BTreeMap;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::LiveCodeBenchCases;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::row::{kind, refused};

/// The columns that may have tests: `input_output` is that of APPS and TACO.
pub(crate) const TESTS: &[&str] = &["tests", "input_output", "test_cases", "verification_info.test_cases"];
/// Columns that may name the function to call.
pub(crate) const FUNCTION: &[&str] = &["fn_name", "func_name", "function_name", "entry_point"];

type Object<'a> = BTreeMap<String, &'a RawValue>;

/// A test as it is written.
struct Written<'a> {
    /// Place of the value in the row, for errors.
    place: String,
    input: &'a RawValue,
    output: &'a RawValue,
}

/// Tests as LiveCodeBench has them, from `[{"input": ..., "output": ...}, ...]` or `{"inputs": [...], "outputs": [...],
/// "fn_name": ...}`, as JSON or as its text. `name` is the column, `function` what the row says to call.
///
/// # Errors
/// The path of the field that is something else, what it is, and what is allowed.
pub(crate) fn cases(name: &str, column: &str, function: Option<&str>) -> Result<LiveCodeBenchCases, FieldError> {
    let not_json =
        |error: serde_json::Error| refused(name, format_args!("not JSON ({error})"), "a list of tests as JSON");
    let decoded: String;
    let column = match serde_json::from_str::<&RawValue>(column).map_err(not_json)?.get() {
        text if text.starts_with('"') => {
            decoded = serde_json::from_str(text).map_err(not_json)?;
            serde_json::from_str::<&RawValue>(&decoded).map_err(not_json)?.get()
        }
        json => json,
    };
    let mut named = function.map(str::to_owned);
    let tests = match column.as_bytes()[0] {
        b'[' => {
            let tests: Vec<&RawValue> = serde_json::from_str(column).map_err(not_json)?;
            let mut written = Vec::with_capacity(tests.len());
            for (index, test) in tests.into_iter().enumerate() {
                let (test, of_test) = pair(format!("{name}[{index}]"), test.get())?;
                named = one_name(&test.place, named, of_test)?;
                written.push(test);
            }
            written
        }
        b'{' => {
            let lists: Object<'_> = serde_json::from_str(column).map_err(not_json)?;
            named = named.or_else(|| FUNCTION.iter().find_map(|field| text(lists.get(*field)?)));
            let inputs = list(name, &lists, "inputs")?;
            let outputs = list(name, &lists, "outputs")?;
            if inputs.len() != outputs.len() {
                let field = format!("the length of `{name}.outputs`");
                let allowed = format!("{}, the length of `{name}.inputs`", inputs.len());
                return Err(FieldError::new(field, outputs.len(), allowed));
            }
            let place = |index: usize| format!("{name}.inputs[{index}]");
            let pairs = inputs.into_iter().zip(outputs).enumerate();
            pairs.map(|(index, (input, output))| Written { place: place(index), input, output }).collect()
        }
        _ => return Err(refused(name, raw_kind(column), "a list of tests")),
    };
    if tests.is_empty() {
        return Err(refused(name, "empty", "at least one test"));
    }
    let function = named.filter(|name| !name.is_empty());
    let case = |test: &Written<'_>| if function.is_some() { Ok(call(test)) } else { process(test) };
    let cases = tests.iter().map(case).collect::<Result<Vec<_>, FieldError>>()?;
    let metadata = function.map_or_else(|| json!({}), |name| json!({"func_name": name}));
    Ok(LiveCodeBenchCases {
        public_test_cases: Value::from(cases).to_string(),
        private_test_cases: String::new(),
        metadata: metadata.to_string(),
    })
}

/// Checks that every test of a list in LiveCodeBench's format has an input and an output.
///
/// # Errors
/// The path of the field that is missing or something else.
pub(crate) fn check(name: &str, column: &str) -> Result<(), FieldError> {
    let tests: Vec<&RawValue> = serde_json::from_str(column)
        .map_err(|error| refused(name, format_args!("not JSON ({error})"), "a list of tests as JSON"))?;
    tests.iter().enumerate().try_for_each(|(index, test)| pair(format!("{name}[{index}]"), test.get()).map(drop))
}

/// Whether all tests of such a list expect blank outputs. False for what is not such a list.
pub(crate) fn expects_nothing(column: &str) -> bool {
    let is_blank = |test: &&RawValue| {
        let fields = serde_json::from_str::<Object<'_>>(test.get()).unwrap_or_default();
        let output = fields.get("output").and_then(|output| text(output));
        !fields.contains_key("alternatives") && output.is_some_and(|output| output.trim().is_empty())
    };
    serde_json::from_str::<Vec<&RawValue>>(column).is_ok_and(|tests| tests.iter().all(is_blank))
}

/// The function that a test names: required if it says that it calls one.
enum Named {
    Nothing,
    Functional,
    Function(String),
}

fn pair(place: String, test: &str) -> Result<(Written<'_>, Named), FieldError> {
    let fields: Object<'_> =
        serde_json::from_str(test).map_err(|_| refused(&place, raw_kind(test), "an object with input and output"))?;
    let field = |names: &[&str]| names.iter().find_map(|name| fields.get(*name).filter(|value| value.get() != "null"));
    let absent = |name: &str| refused(format_args!("{place}.{name}"), "absent", "a text");
    let input = *field(&["input"]).ok_or_else(|| absent("input"))?;
    let output = *field(&["output", "expected_output"]).ok_or_else(|| absent("output"))?;
    let metadata = field(&["metadata"]).and_then(|metadata| serde_json::from_str::<Object<'_>>(metadata.get()).ok());
    let name = FUNCTION.iter().find_map(|name| text(fields.get(*name)?));
    let name = name.or_else(|| text(metadata?.get("func_name")?));
    let is_functional = field(&["testtype", "type"]).and_then(|kind| text(kind));
    let named = match name.filter(|name| !name.is_empty()) {
        Some(name) => Named::Function(name),
        None if matches!(is_functional.as_deref(), Some("functional" | "function_call")) => Named::Functional,
        None => Named::Nothing,
    };
    Ok((Written { place, input, output }, named))
}

/// The function after another test: all tests of a question call one function.
fn one_name(place: &str, so_far: Option<String>, test: Named) -> Result<Option<String>, FieldError> {
    let field = || format!("{place}.fn_name");
    match (so_far, test) {
        (None, Named::Functional) => Err(refused(field(), "absent", "the name of the function that the test calls")),
        (None, Named::Function(name)) => Ok(Some(name)),
        (Some(name), Named::Function(other)) if name != other => Err(refused(field(), other, name)),
        (so_far, _) => Ok(so_far),
    }
}

/// A test of a program that reads standard input.
fn process(test: &Written<'_>) -> Result<Value, FieldError> {
    let place = &test.place;
    let input = plain(test.input).ok_or_else(|| refused(place, raw_kind(test.input.get()), "a text"))?;
    let output = plain(test.output);
    let output = output
        .ok_or_else(|| FieldError::new(format!("the output of `{place}`"), raw_kind(test.output.get()), "a text"))?;
    Ok(json!({"input": input, "output": output, "testtype": "stdin"}))
}

/// A test of a function. Some data sets have its result in a list of one, and a text may be the result or its JSON:
/// then there are two outputs.
fn call(test: &Written<'_>) -> Value {
    let is_list = |value: &RawValue| value.get().starts_with('[');
    let output = match text(test.output) {
        // Next to arguments as JSON in a text, the result is one as well.
        Some(text) if !is_list(test.input) && is_json(&text) => compact(&text),
        _ => compact(test.output.get()),
    };
    let mut alternatives = Vec::new();
    if is_list(test.output)
        && let Ok([one]) = <[&RawValue; 1]>::try_from(elements(test.output))
    {
        alternatives.push(compact(one.get()));
        alternatives.extend(text(one).filter(|text| is_json(text)).map(|text| compact(&text)));
    } else if is_list(test.input) {
        alternatives.extend(text(test.output).filter(|text| is_json(text)).map(|text| compact(&text)));
    }
    let mut case = json!({"input": arguments(test.input), "output": output, "testtype": "functional"});
    if !alternatives.is_empty() {
        case["alternatives"] = alternatives.into();
    }
    case
}

fn list<'a>(column: &str, lists: &Object<'a>, name: &str) -> Result<Vec<&'a RawValue>, FieldError> {
    match lists.get(name) {
        Some(values) if values.get().starts_with('[') => Ok(elements(values)),
        found => {
            let found = found.map_or("absent", |value| raw_kind(value.get()));
            Err(refused(format_args!("{column}.{name}"), found, "a list"))
        }
    }
}

fn elements(list: &RawValue) -> Vec<&RawValue> {
    serde_json::from_str(list.get()).unwrap_or_default()
}

/// The content of a text; `None` for other values.
fn text(value: &RawValue) -> Option<String> {
    value.get().starts_with('"').then(|| serde_json::from_str(value.get()).ok()).flatten()
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// What a program reads or prints: a text, a number as it is written, Python's name of a truth value, or lines of them.
fn plain(value: &RawValue) -> Option<String> {
    match value.get() {
        "true" => Some("True".to_owned()),
        "false" => Some("False".to_owned()),
        "null" => None,
        json if json.starts_with('"') => text(value),
        json if json.starts_with('{') => None,
        json if json.starts_with('[') => {
            let lines = elements(value).into_iter().map(plain).collect::<Option<Vec<_>>>()?;
            // Lines may end with a line break already.
            let ended = lines.iter().rev().skip(1).all(|line| line.ends_with('\n')) && lines.len() > 1;
            Some(lines.join(if ended { "" } else { "\n" }))
        }
        number => Some(number.to_owned()),
    }
}

/// The arguments of a call, each on a line as JSON.
fn arguments(value: &RawValue) -> String {
    match text(value) {
        Some(lines) if lines.lines().all(is_json) => lines,
        // The only argument, a text.
        Some(_) => compact(value.get()),
        None if value.get().starts_with('[') => {
            elements(value).into_iter().map(|argument| compact(argument.get())).collect::<Vec<_>>().join("\n")
        }
        None => compact(value.get()),
    }
}

/// JSON on one line: line breaks stand only between its parts.
fn compact(json: &str) -> String {
    json.trim().replace(['\n', '\r'], " ")
}

/// A JSON value in words.
fn raw_kind(json: &str) -> &'static str {
    serde_json::from_str::<Value>(json).map_or("not JSON", |value| kind(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str, function: Option<&str>) -> Result<(Value, Value), String> {
        let cases = cases("tests", json, function).map_err(|error| error.to_string())?;
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
            r#"{"inputs": ["1\n"], "outputs": [["2"]], "fn_name": null}"#,
            r#"[{"input": "1\n", "output": "2", "testtype": "stdin", "metadata": {"func_name": null}}]"#,
            r#"[{"type": "stdin_stdout", "fn_name": null, "input": "1\n", "output": "2"}]"#,
            r#""[{\"input\": \"1\\n\", \"output\": \"2\"}]""#,
        ] {
            assert_eq!(read(tests, None).unwrap(), (stdin.clone(), json!({})), "{tests}");
        }
        let lines = read(r#"[{"input": ["3", "1 2 3"], "output": [6]}]"#, None).unwrap().0;
        assert_eq!((&lines[0]["input"], &lines[0]["output"]), (&"3\n1 2 3".into(), &"6".into()));
        let lines = read(r#"[{"input": ["3\n", "1 2 3\n"], "output": [true]}]"#, None).unwrap().0;
        assert_eq!((&lines[0]["input"], &lines[0]["output"]), (&"3\n1 2 3\n".into(), &"True".into()));
    }

    #[test]
    fn with_a_function_inputs_are_its_arguments_and_outputs_its_results() {
        for (tests, input, output) in [
            (r#"{"inputs": [[[1, 2], 3]], "outputs": [[4, 5]], "fn_name": "f"}"#, "[1, 2]\n3", "[4, 5]"),
            (r#"{"inputs": ["[1,2]\n3"], "outputs": ["[4]"], "fn_name": "f"}"#, "[1,2]\n3", "[4]"),
            (r#"{"inputs": ["[1,2]\n3"], "outputs": [[4,5]], "fn_name": "f"}"#, "[1,2]\n3", "[4,5]"),
            (r#"{"inputs": ["two words"], "outputs": [1], "fn_name": "f"}"#, "\"two words\"", "1"),
            ("{\"inputs\": [[[1,\n2]]], \"outputs\": [{\"a\":\n1}], \"fn_name\": \"f\"}", "[1, 2]", "{\"a\": 1}"),
        ] {
            let expected = json!([{"input": input, "output": output, "testtype": "functional"}]);
            assert_eq!(read(tests, None).unwrap(), (expected, json!({"func_name": "f"})), "{tests}");
        }
        let text = read(r#"[{"input": ["a"], "output": "b c"}]"#, Some("g")).unwrap();
        assert_eq!((&text.0[0]["input"], &text.0[0]["output"]), (&"\"a\"".into(), &"\"b c\"".into()));
    }

    #[test]
    fn a_result_in_a_list_of_one_and_a_text_that_is_json_are_right_in_two_forms() {
        for (output, first, other) in [
            ("[4]", "[4]", json!(["4"])),
            ("[[4, 5]]", "[[4, 5]]", json!(["[4, 5]"])),
            (r#"["a b"]"#, r#"["a b"]"#, json!(["\"a b\""])),
            (r#"["12"]"#, r#"["12"]"#, json!(["\"12\"", "12"])),
            (r#""12""#, r#""12""#, json!(["12"])),
            (r#""[1]""#, r#""[1]""#, json!(["[1]"])),
            ("[4, 5]", "[4, 5]", Value::Null),
            (r#""a b""#, r#""a b""#, Value::Null),
            ("[]", "[]", Value::Null),
        ] {
            let tests = format!(r#"{{"inputs": [[1]], "outputs": [{output}], "fn_name": "f"}}"#);
            let (cases, _) = read(&tests, None).unwrap();
            assert_eq!((cases[0]["output"].as_str(), &cases[0]["alternatives"]), (Some(first), &other), "{output}");
        }
    }

    #[test]
    fn numbers_stay_as_they_are_written() {
        let big = "123456789012345678901234567890";
        let tests = format!(r#"{{"inputs": [[{big}]], "outputs": [{big}], "fn_name": "f"}}"#);
        let (cases, _) = read(&tests, None).unwrap();
        assert_eq!((&cases[0]["input"], &cases[0]["output"]), (&big.into(), &big.into()));
        let (cases, _) = read(&format!(r#"[{{"input": {big}, "output": 1.50}}]"#), None).unwrap();
        assert_eq!((&cases[0]["input"], &cases[0]["output"]), (&big.into(), &"1.50".into()));
    }

    #[test]
    fn a_test_may_name_the_function() {
        for name in [r#""fn_name": "f""#, r#""func_name": "f""#, r#""metadata": {"func_name": "f"}"#] {
            let tests = format!(r#"[{{"input": "1", "output": "2", "testtype": "functional", {name}}}]"#);
            let (cases, metadata) = read(&tests, None).unwrap();
            assert_eq!((metadata, &cases[0]["testtype"]), (json!({"func_name": "f"}), &"functional".into()), "{name}");
        }
        let functional = r#"[{"input": "1", "output": "2", "testtype": "functional"}]"#;
        let error = read(functional, None).unwrap_err();
        assert_eq!(error, "`tests[0].fn_name` is absent, required: the name of the function that the test calls");
        assert_eq!(read(functional, Some("g")).unwrap().1, json!({"func_name": "g"}));
        let two = r#"[{"input": "1", "output": "2", "fn_name": "f"}, {"input": "1", "output": "2", "fn_name": "g"}]"#;
        assert_eq!(read(two, None).unwrap_err(), "`tests[1].fn_name` is g, allowed: f");
    }

    #[test]
    fn what_is_not_a_list_of_tests_is_refused_by_its_field() {
        for (tests, words) in [
            (r#""[{""#, "`tests` is not JSON ("),
            ("3", "`tests` is a number, allowed: a list of tests"),
            ("[]", "`tests` is empty, allowed: at least one test"),
            ("[3]", "`tests[0]` is a number, allowed: an object with input and output"),
            (r#"[{"input": "1"}]"#, "`tests[0].output` is absent"),
            (r#"[{"input": "1", "output": null}]"#, "`tests[0].output` is absent"),
            (r#"[{"input": {}, "output": "1"}]"#, "`tests[0]` is an object, allowed: a text"),
            (r#"{"inputs": ["1"]}"#, "`tests.outputs` is absent"),
            (r#"{"inputs": ["1"], "outputs": [null]}"#, "the output of `tests.inputs[0]` is null, allowed: a text"),
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
