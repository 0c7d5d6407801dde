//! LiveCodeBench's rows as they are published: three columns of text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::pickle::pickled_string;
use super::tests::{BadTests, Kind, Test, Tests};
use crate::compare::json;
use crate::compare::value::Value;

/// Most bytes that the private tests of one row may inflate to.
pub const MAX_PRIVATE_BYTES: usize = 512 << 20;

/// Why a row is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct BadRow {
    /// The column.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

/// Reads the tests of a row, public ones before private ones.
///
/// # Errors
///
/// Names the column that cannot be read.
pub fn tests_of_row(public: &str, private: &str, metadata: &str, max_private_bytes: usize) -> Result<Tests, BadRow> {
    let mut tests = list("public_test_cases", public)?;
    tests.extend(private_tests(private, max_private_bytes)?);
    let function = function(metadata)?;
    // The grader looks at the function's name alone, and so do we.
    let kind = if function.is_some() { Kind::Functional } else { Kind::Stdin };
    for test in &mut tests {
        test.kind = kind;
    }
    Tests::new(tests, function).map_err(|problem| {
        let field = if problem == BadTests::None { "public_test_cases" } else { "metadata" };
        BadRow { field, problem: problem.to_string() }
    })
}

fn private_tests(text: &str, max_bytes: usize) -> Result<Vec<Test>, BadRow> {
    const FIELD: &str = "private_test_cases";
    let wrong = |problem: String| BadRow { field: FIELD, problem };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    if text.trim_start().starts_with('[') {
        return list(FIELD, text);
    }
    let encoded: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let packed =
        STANDARD.decode(encoded).map_err(|error| wrong(format!("neither a JSON array nor base64: {error}")))?;
    let pickle = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&packed, max_bytes).map_err(|error| {
        match error.status {
            miniz_oxide::inflate::TINFLStatus::HasMoreOutput => {
                wrong(format!("inflates to more than {max_bytes} bytes"))
            }
            status => wrong(format!("not a zlib stream: {status:?}")),
        }
    })?;
    list(FIELD, pickled_string(&pickle).map_err(|error| wrong(error.to_string()))?)
}

fn function(metadata: &str) -> Result<Option<String>, BadRow> {
    let wrong = |problem: &str| BadRow { field: "metadata", problem: problem.to_owned() };
    if metadata.trim().is_empty() {
        return Ok(None);
    }
    let Value::Dict(entries) = json::read(metadata).map_err(|error| wrong(&error.to_string()))? else {
        return Err(wrong("not a JSON object"));
    };
    match field(&entries, "func_name") {
        None | Some(Value::None) => Ok(None),
        Some(Value::Text(name)) => {
            String::from_utf8(name.clone()).map(Some).map_err(|_| wrong("func_name is not text"))
        }
        Some(_) => Err(wrong("func_name is not text")),
    }
}

fn list(column: &'static str, text: &str) -> Result<Vec<Test>, BadRow> {
    let wrong = |problem: String| BadRow { field: column, problem };
    let Value::List(rows) = json::read(text).map_err(|error| wrong(error.to_string()))? else {
        return Err(wrong("not a JSON array".to_owned()));
    };
    let test = |(index, row): (usize, Value)| {
        let Value::Dict(entries) = row else { return Err(wrong(format!("test {index} is not an object"))) };
        let text = |name: &str| match field(&entries, name) {
            Some(Value::Text(text)) => {
                String::from_utf8(text.clone()).map_err(|_| wrong(format!("test {index}: {name} is not text")))
            }
            Some(_) => Err(wrong(format!("test {index}: {name} is not text"))),
            None => Err(wrong(format!("test {index} has no {name}"))),
        };
        Ok(Test { kind: Kind::Stdin, input: text("input")?, output: text("output")? })
    };
    rows.into_iter().enumerate().map(test).collect()
}

fn field<'a>(entries: &'a [(Value, Value)], name: &str) -> Option<&'a Value> {
    entries.iter().find(|(key, _)| matches!(key, Value::Text(text) if text == name.as_bytes())).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: &str = r#"[{"input": "1\n", "output": "2", "testtype": "stdin"}]"#;

    fn refused(public: &str, private: &str, metadata: &str) -> BadRow {
        tests_of_row(public, private, metadata, 1 << 20).expect_err("the row is refused")
    }

    fn packed(pickle: &[u8]) -> String {
        STANDARD.encode(miniz_oxide::deflate::compress_to_vec_zlib(pickle, 6))
    }

    #[test]
    fn public_tests_come_before_private_ones_in_both_forms() {
        let private = r#"[{"input": "3", "output": "4", "testtype": "stdin"}]"#;
        let pickle = [b"\x80\x03X", &(private.len() as u32).to_le_bytes()[..], private.as_bytes(), b"q\0."].concat();
        for private in [private.to_owned(), packed(&pickle)] {
            let tests = tests_of_row(PUBLIC, &private, "{}", 1 << 20).unwrap();
            let outputs: Vec<&str> = tests.tests().iter().map(|test| test.output.as_str()).collect();
            assert_eq!(outputs, ["2", "4"]);
            assert_eq!(tests.function(), None);
        }
    }

    #[test]
    fn a_function_in_the_metadata_makes_a_functional_question() {
        let tests = tests_of_row(PUBLIC.replace("\\n", "").as_str(), "[]", r#"{"func_name": "f"}"#, 1 << 20).unwrap();
        assert_eq!(tests.function(), Some("f"));
        assert_eq!(tests.defect(), None);
    }

    #[test]
    fn no_tests_at_all_are_refused() {
        assert_eq!(refused("[]", "[]", "{}").problem, "no tests");
    }

    #[test]
    fn a_bomb_is_refused_before_it_is_unpacked() {
        let bomb = packed(&vec![b'.'; 50 << 20]);
        assert!(bomb.len() < 100_000);
        assert_eq!(refused(PUBLIC, &bomb, "{}").problem, "inflates to more than 1048576 bytes");
    }

    #[test]
    fn the_column_that_cannot_be_read_is_named() {
        assert_eq!(refused("{", "[]", "{}").field, "public_test_cases");
        assert_eq!(refused("[1]", "[]", "{}").problem, "test 0 is not an object");
        assert_eq!(refused(r#"[{"input": "1"}]"#, "[]", "{}").problem, "test 0 has no output");
        assert_eq!(refused(r#"[{"input": 1, "output": ""}]"#, "[]", "{}").problem, "test 0: input is not text");
        assert_eq!(refused(PUBLIC, "!!", "{}").field, "private_test_cases");
        assert_eq!(refused(PUBLIC, "AAAA", "{}").field, "private_test_cases");
        assert_eq!(refused(PUBLIC, &packed(b"cos\nsystem\n."), "{}").field, "private_test_cases");
        assert_eq!(refused(PUBLIC, "[]", "[]").problem, "not a JSON object");
        assert_eq!(refused(PUBLIC, "[]", r#"{"func_name": 1}"#).problem, "func_name is not text");
    }
}
