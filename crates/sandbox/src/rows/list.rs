//! Streaming parser of a JSON array of tests: fields that are not used are skipped, and the memory of the tests is
//! limited.

use std::cell::Cell;
use std::fmt;
use std::io::Read;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::tests::{Test, TestKind};

/// Why a column is not a list of tests.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadList {
    /// A test of the list is invalid.
    #[error("test {index}: {error}")]
    Test {
        /// Index of the test, from 0.
        index: usize,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// The value is not a list.
    #[error("not a JSON array: {0}")]
    NotAnArray(serde_json::Error),
    /// Text that is not JSON.
    #[error(transparent)]
    Json(serde_json::Error),
}

/// A test as a column has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// The test, whose kind is still to be set.
    pub test: Test,
    /// Whether the test says that it calls a function.
    pub is_functional: bool,
    /// The function that it says to call.
    pub function: Option<String>,
}

/// Reads the tests of a column, which may take at most `max_bytes` of memory.
pub(super) fn list(json: impl Read, max_bytes: usize) -> Result<Vec<Listed>, BadList> {
    let test = Cell::new(None);
    let mut reader = serde_json::Deserializer::from_reader(json);
    let tests =
        Tests { max_bytes, test: &test }.deserialize(&mut reader).and_then(|tests| reader.end().map(|()| tests));
    tests.map_err(|error| match test.get() {
        Some(index) => BadList::Test { index, error },
        None if error.is_data() => BadList::NotAnArray(error),
        None => BadList::Json(error),
    })
}

/// Deserialises all tests. `test` is the index of the current one.
struct Tests<'a> {
    max_bytes: usize,
    test: &'a Cell<Option<usize>>,
}

impl<'de> DeserializeSeed<'de> for Tests<'_> {
    type Value = Vec<Listed>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Vec<Listed>, D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Tests<'_> {
    type Value = Vec<Listed>;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("an array of tests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Vec<Listed>, A::Error> {
        let mut tests = Vec::new();
        let mut held = 0;
        loop {
            self.test.set(Some(tests.len()));
            let Some(test) = array.next_element_seed(One)? else { break };
            held += test.test.held_bytes() + test.function.as_ref().map_or(0, String::capacity);
            if held > self.max_bytes {
                return Err(A::Error::custom(format_args!("the tests hold more than {} bytes", self.max_bytes)));
            }
            tests.push(test);
        }
        self.test.set(None);
        Ok(tests)
    }
}

/// Deserialises one test of the list.
struct One;

impl<'de> DeserializeSeed<'de> for One {
    type Value = Listed;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Listed, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for One {
    type Value = Listed;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("an object with input and output")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Listed, A::Error> {
        let mut input = None;
        let mut output = None;
        let mut alternatives = Vec::new();
        let mut is_functional = false;
        let mut function = None;
        while let Some(name) = entries.next_key_seed(Name)? {
            match name {
                Field::Input => input = Some(entries.next_value_seed(Text("a text as input"))?),
                Field::Output => output = Some(entries.next_value_seed(Text("a text as output"))?),
                Field::Alternatives => alternatives = entries.next_value::<Vec<String>>()?,
                Field::Kind => {
                    is_functional = matches!(entries.next_value::<MaybeText>()?.0.as_deref(), Some("functional"))
                }
                Field::Function => function = entries.next_value::<MaybeText>()?.0.or(function),
                Field::Metadata => function = function.or(entries.next_value::<Metadata>()?.func_name.0),
                Field::Other => drop(entries.next_value::<IgnoredAny>()?),
            }
        }
        let input = input.ok_or_else(|| A::Error::custom("there is no input"))?;
        let output = output.ok_or_else(|| A::Error::custom("there is no output"))?;
        let function = function.filter(|name| !name.is_empty());
        Ok(Listed { test: Test { alternatives, ..Test::new(TestKind::Stdin, input, output) }, is_functional, function })
    }
}

/// A field of a test.
enum Field {
    Input,
    Output,
    Alternatives,
    Kind,
    Function,
    Metadata,
    /// Any other field, which is skipped.
    Other,
}

/// Deserialises the name of a field.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Field;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Field;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Field, E> {
        Ok(match name {
            "input" => Field::Input,
            "output" => Field::Output,
            "alternatives" => Field::Alternatives,
            "testtype" => Field::Kind,
            "fn_name" | "func_name" => Field::Function,
            "metadata" => Field::Metadata,
            _ => Field::Other,
        })
    }
}

/// A text, or nothing where there is something else.
#[derive(Debug, Default)]
struct MaybeText(Option<String>);

impl<'de> Deserialize<'de> for MaybeText {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        Ok(Self(match serde_json::Value::deserialize(reader)? {
            serde_json::Value::String(text) => Some(text),
            _ => None,
        }))
    }
}

/// What a test says of itself in an object of its own.
#[derive(Debug, Default)]
struct Metadata {
    func_name: MaybeText,
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let name = match serde_json::Value::deserialize(reader)? {
            serde_json::Value::Object(mut fields) => fields.remove("func_name"),
            _ => None,
        };
        Ok(Self { func_name: MaybeText(name.and_then(|name| name.as_str().map(str::to_owned))) })
    }
}

/// Deserialises a string, which is described in errors like this.
struct Text(&'static str);

impl<'de> DeserializeSeed<'de> for Text {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<String, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(self.0)
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_skipped() {
        let json =
            r#"[{"testtype": "stdin", "more": [{"input": 1}, null, 1e400000], "input": "a\n\u00e9", "output": ""}]"#;
        let tests = list(json.as_bytes(), 1 << 20).unwrap();
        assert_eq!((tests[0].test.input.as_str(), tests[0].test.output.as_str()), ("a\né", ""));
        assert_eq!(list(" [] ".as_bytes(), 0).unwrap(), Vec::new());
    }

    #[test]
    fn a_test_may_name_its_function_and_other_right_outputs() {
        for name in [r#""fn_name": "f""#, r#""func_name": "f""#, r#""metadata": {"func_name": "f", "more": 1}"#] {
            let json =
                format!(r#"[{{"input": "", "output": "1", "testtype": "functional", {name}, "alternatives": ["2"]}}]"#);
            let tests = list(json.as_bytes(), 1 << 20).unwrap();
            assert_eq!((tests[0].is_functional, tests[0].function.as_deref()), (true, Some("f")), "{name}");
            assert_eq!(tests[0].test.outputs().collect::<Vec<_>>(), ["1", "2"]);
        }
        let json =
            r#"[{"input": "", "output": "", "testtype": "stdin", "fn_name": null, "metadata": {"func_name": null}}]"#;
        let tests = list(json.as_bytes(), 1 << 20).unwrap();
        assert_eq!((tests[0].is_functional, &tests[0].function), (false, &None));
    }

    #[test]
    fn errors_name_the_test() {
        for (json, problem) in [
            ("{}", "not a JSON array: invalid type: map"),
            ("[1]", "test 0: invalid type: integer `1`, expected an object with input and output"),
            (r#"[{"input": "1"}]"#, "test 0: there is no output"),
            (r#"[{"input": 1}]"#, "test 0: invalid type: integer `1`, expected a text as input"),
            ("[] []", "trailing characters"),
            ("", "EOF while parsing a value"),
        ] {
            let found = list(json.as_bytes(), 1 << 20).unwrap_err().to_string();
            assert!(found.starts_with(problem), "{json}: {found}");
        }
        assert!(list("[".repeat(100_000).as_bytes(), 1 << 20).is_err());
    }

    #[test]
    fn small_tests_count_with_their_memory() {
        let json = format!("[{}]", vec![r#"{"input":"","output":""}"#; 10_000].join(","));
        let problem = list(json.as_bytes(), json.len()).unwrap_err().to_string();
        assert!(problem.contains("the tests hold more than"), "{problem}");
        assert_eq!(list(json.as_bytes(), 10_000 * size_of::<Listed>()).unwrap().len(), 10_000);
    }
}
