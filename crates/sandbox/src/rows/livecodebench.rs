//! Rows of LiveCodeBench as published: three columns of text.

use std::fmt::Display;
use std::io::BufReader;

use super::inflate::Inflated;
use super::list::{Listed, list};
use super::pickle::PickledString;
use super::tests::{BadTests, Test, TestKind, Tests};
use crate::compare::json;
use crate::compare::value::Value;

/// Default limit on the inflated size of the private tests of a row, in bytes.
pub const MAX_PRIVATE_BYTES: usize = 512 << 20;

const PUBLIC: &str = "public_test_cases";
const PRIVATE: &str = "private_test_cases";
/// Size of read buffers in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Why a row is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct BadRow {
    /// Name of the column.
    pub field: &'static str,
    /// What is wrong with the column.
    pub problem: String,
}

/// The columns of a row.
#[derive(Clone, Copy)]
pub struct LiveCodeBenchRow<'a> {
    /// Text of the column `public_test_cases`.
    pub public: &'a str,
    /// Text of the column `private_test_cases`.
    pub private: &'a str,
    /// Text of the column `metadata`.
    pub metadata: &'a str,
    /// Most bytes that the private tests may inflate to, and most memory of the tests in either column.
    pub max_private_bytes: usize,
    /// Whether reading was cancelled; called from time to time.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// Reads the tests of a row, public ones before private ones.
///
/// # Errors
///
/// The column that is invalid.
pub fn tests_of_row(public: &str, private: &str, metadata: &str, max_private_bytes: usize) -> Result<Tests, BadRow> {
    LiveCodeBenchRow { public, private, metadata, max_private_bytes, stop: &|| false }.read()
}

impl LiveCodeBenchRow<'_> {
    /// Bytes of all tests as JSON. Compressed tests are counted without being kept.
    ///
    /// # Errors
    ///
    /// Private tests that cannot be decompressed within the limit.
    pub fn unpacked_bytes(&self) -> Result<usize, BadRow> {
        let private = match self.packed() {
            None => self.private.len(),
            Some(packed) => packed.count().map_err(|error| wrong(PRIVATE, &error))?,
        };
        Ok(self.public.len() + private)
    }

    /// Reads the tests, public ones before private ones.
    ///
    /// # Errors
    ///
    /// The column that is invalid.
    pub fn read(&self) -> Result<Tests, BadRow> {
        let max_bytes = self.max_private_bytes;
        let mut listed = list(self.public.as_bytes(), max_bytes).map_err(|problem| wrong(PUBLIC, &problem))?;
        listed.extend(self.private_tests()?);
        let function = match function(self.metadata)? {
            Some(name) => Some(name),
            None => function_of(&listed).map_err(|problem| wrong(PUBLIC, &problem))?,
        };
        // Like the grader, go by the function's name alone.
        let kind = if function.is_some() { TestKind::Functional } else { TestKind::Stdin };
        let tests = listed.into_iter().map(|listed| Test { kind, ..listed.test }).collect();
        Tests::within(tests, function, max_bytes).map_err(|problem| {
            let field = if problem == BadTests::None { PUBLIC } else { "metadata" };
            wrong(field, &problem)
        })
    }

    fn private_tests(&self) -> Result<Vec<Listed>, BadRow> {
        let max_bytes = self.max_private_bytes;
        let tests = match self.packed() {
            None if self.private.trim().is_empty() => return Ok(Vec::new()),
            None => list(self.private.as_bytes(), max_bytes),
            Some(packed) => {
                let pickle = BufReader::with_capacity(BUFFER_BYTES, packed);
                let json = PickledString::open(pickle).map_err(|error| wrong(PRIVATE, &error))?;
                list(BufReader::with_capacity(BUFFER_BYTES, json), max_bytes)
            }
        };
        tests.map_err(|problem| wrong(PRIVATE, &problem))
    }

    /// The private tests if they are compressed: neither absent nor plain JSON.
    fn packed(&self) -> Option<Inflated<'_>> {
        let text = self.private.trim_start();
        let plain = text.is_empty() || text.starts_with('[');
        (!plain).then(|| Inflated::new(text, self.max_private_bytes, self.stop))
    }
}

/// The function that the tests themselves name.
fn function_of(tests: &[Listed]) -> Result<Option<String>, BadTests> {
    let Some(named) = tests.iter().find_map(|test| test.function.as_ref()) else {
        return match tests.iter().position(|test| test.is_functional) {
            Some(index) => Err(BadTests::NoFunction(index)),
            None => Ok(None),
        };
    };
    match tests.iter().position(|test| test.function.as_ref().is_some_and(|name| name != named)) {
        Some(index) => Err(BadTests::SeveralFunctions(index)),
        None => Ok(Some(named.clone())),
    }
}

fn wrong(field: &'static str, problem: &dyn Display) -> BadRow {
    BadRow { field, problem: problem.to_string() }
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

fn field<'a>(entries: &'a [(Value, Value)], name: &str) -> Option<&'a Value> {
    entries.iter().find(|(key, _)| matches!(key, Value::Text(text) if text == name.as_bytes())).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

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
    fn a_function_may_be_named_by_the_tests() {
        let test =
            |name: &str| format!(r#"{{"input": "1", "output": "2", "testtype": "functional", "fn_name": {name}}}"#);
        let tests = tests_of_row(&format!("[{}]", test(r#""f""#)), "[]", "{}", 1 << 20).unwrap();
        assert_eq!((tests.function(), tests.defect()), (Some("f"), None));
        let problem = refused(&format!("[{}]", test("null")), "", "").problem;
        assert_eq!(problem, "test 0 is functional, and no function is named");
        let problem = refused(&format!("[{}, {}]", test(r#""f""#), test(r#""g""#)), "", "").problem;
        assert_eq!(problem, "test 1 names another function than those before it");
    }

    #[test]
    fn other_right_outputs_have_a_digest_of_their_own() {
        let row = |more: &str| {
            let public = format!(r#"[{{"input": "1", "output": "[2]"{more}}}]"#);
            tests_of_row(&public, "", r#"{"func_name": "f"}"#, 1 << 20).unwrap()
        };
        let one = row("");
        let two = row(r#", "alternatives": ["2"]"#);
        assert_eq!((one.expected(0).len(), two.expected(0).len()), (1, 2));
        assert_ne!(one.digest(), two.digest());
    }

    #[test]
    fn no_tests_at_all_are_refused() {
        assert_eq!(refused("[]", "[]", "{}").problem, "no tests");
    }

    #[test]
    fn a_bomb_is_refused_before_it_is_decompressed() {
        let bomb = packed(&vec![b'.'; 50 << 20]);
        assert!(bomb.len() < 100_000);
        let row = LiveCodeBenchRow {
            public: PUBLIC,
            private: &bomb,
            metadata: "{}",
            max_private_bytes: 1 << 20,
            stop: &|| false,
        };
        assert_eq!(row.unpacked_bytes().unwrap_err().problem, "inflates to more than 1048576 bytes");
        let json = format!("[{}]", vec![r#"{"input":"","output":""}"#; 2_000_000].join(","));
        let pickle = [b"\x80\x03X", &(json.len() as u32).to_le_bytes()[..], json.as_bytes(), b"q\0."].concat();
        let bomb = packed(&pickle);
        let problem = refused(PUBLIC, &bomb, "{}").problem;
        assert!(problem.contains("the tests hold more than 1048576 bytes"), "{problem}");
        let row = LiveCodeBenchRow { private: &bomb, max_private_bytes: 1 << 30, ..row };
        assert_eq!(row.unpacked_bytes().unwrap(), PUBLIC.len() + pickle.len());
    }

    #[test]
    fn expected_values_count_with_their_memory() {
        let zeros = format!("[{}]", vec!["0"; 100_000].join(","));
        let public = format!(r#"[{{"input": "1", "output": "{zeros}"}}]"#);
        let metadata = r#"{"func_name": "f"}"#;
        let problem = refused(&public, "[]", metadata).problem;
        assert_eq!(problem, "the tests hold more than 1048576 bytes");
        let tests = tests_of_row(&public, "[]", metadata, 64 << 20).unwrap();
        assert!(tests.held_bytes() > 100_000 * size_of::<Value>(), "{}", tests.held_bytes());
    }

    #[test]
    fn the_column_that_cannot_be_read_is_named() {
        assert_eq!(refused("{", "[]", "{}").field, "public_test_cases");
        assert!(refused("[1]", "[]", "{}").problem.starts_with("test 0: "));
        assert_eq!(refused(PUBLIC, "!!", "{}").field, "private_test_cases");
        assert_eq!(refused(PUBLIC, "AAAA", "{}").field, "private_test_cases");
        assert_eq!(refused(PUBLIC, &packed(b"cos\nsystem\n."), "{}").field, "private_test_cases");
        assert_eq!(refused(PUBLIC, "[]", "[]").problem, "not a JSON object");
        assert_eq!(refused(PUBLIC, "[]", r#"{"func_name": 1}"#).problem, "func_name is not text");
    }
}
