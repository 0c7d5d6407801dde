//! Streaming parser of a JSON array of tests: other fields are skipped, and the memory of the tests is limited.

use std::cell::Cell;
use std::fmt;
use std::io::Read;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::tests::{Kind, Test};

/// Why a column is not a list of tests.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadList {
    /// One of the tests.
    #[error("test {index}: {error}")]
    Test {
        /// Its index.
        index: usize,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// Another value than a list.
    #[error("not a JSON array: {0}")]
    NotAnArray(serde_json::Error),
    /// Text that is not JSON.
    #[error(transparent)]
    Json(serde_json::Error),
}

/// Reads the tests of a column, which may take at most `max_bytes` of memory.
pub(super) fn list(json: impl Read, max_bytes: usize) -> Result<Vec<Test>, BadList> {
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
    type Value = Vec<Test>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Vec<Test>, D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Tests<'_> {
    type Value = Vec<Test>;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("an array of tests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Vec<Test>, A::Error> {
        let (mut tests, mut held) = (Vec::new(), 0);
        loop {
            self.test.set(Some(tests.len()));
            let Some(test) = array.next_element_seed(One)? else { break };
            held += test.held_bytes();
            if held > self.max_bytes {
                return Err(A::Error::custom(format_args!("the tests hold more than {} bytes", self.max_bytes)));
            }
            tests.push(test);
        }
        self.test.set(None);
        Ok(tests)
    }
}

/// Deserialises one test.
struct One;

impl<'de> DeserializeSeed<'de> for One {
    type Value = Test;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Test, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for One {
    type Value = Test;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("an object with input and output")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Test, A::Error> {
        let (mut input, mut output) = (None, None);
        while let Some(name) = entries.next_key_seed(Name)? {
            match name {
                Some("input") => input = Some(entries.next_value_seed(Text("a text as input"))?),
                Some(_) => output = Some(entries.next_value_seed(Text("a text as output"))?),
                None => drop(entries.next_value::<IgnoredAny>()?),
            }
        }
        let input = input.ok_or_else(|| A::Error::custom("there is no input"))?;
        let output = output.ok_or_else(|| A::Error::custom("there is no output"))?;
        Ok(Test { kind: Kind::Stdin, input, output })
    }
}

/// Deserialises the name of a field. `None` for fields that are skipped.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<&'static str>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<&'static str>;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(["input", "output"].into_iter().find(|known| *known == name))
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
        assert_eq!((tests[0].input.as_str(), tests[0].output.as_str()), ("a\né", ""));
        assert_eq!(list(" [] ".as_bytes(), 0).unwrap(), Vec::new());
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
        assert_eq!(list(json.as_bytes(), 10_000 * size_of::<Test>()).unwrap().len(), 10_000);
    }
}
