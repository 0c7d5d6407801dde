//! JSON in which every object has each key once. A second value would silently take the place of the first.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The value of a text.
///
/// # Errors
/// A text that is not JSON; an object with a key twice, which is named.
pub(crate) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Unique.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = values.next_element_seed(Unique)? {
            list.push(value);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let value = fields.next_value_seed(Unique)?;
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key `{key}` is there twice, allowed: each once")));
            }
            object.insert(key, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_ever() {
        let text = r#" {"a": [1, -2, 2.5, 18446744073709551615, null, true, "\u00e9"], "b": {"a": {}}} "#;
        assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        for broken in ["", "{", "{\"a\": 1} 2", "[1,]"] {
            let ours = parse(broken).unwrap_err();
            let theirs = serde_json::from_str::<Value>(broken).unwrap_err();
            assert_eq!((ours.to_string(), ours.is_eof()), (theirs.to_string(), theirs.is_eof()));
        }
    }

    #[test]
    fn a_key_twice_is_refused_at_any_depth() {
        for text in [r#"{"answer": 1, "answer": 2}"#, r#"{"a": [{"answer": 1, "b": 0, "answer": 1}]}"#] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with("the key `answer` is there twice, allowed: each once"), "{error}");
        }
    }
}
