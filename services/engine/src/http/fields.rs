//! Reading the fields of a body into a struct. Values may have the forms that vLLM accepts: numbers may be strings, 1.0
//! is an integer, `null` is an absent field.

use std::collections::BTreeMap;

use evenkeel_errors::FieldError;
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON object whose values are not parsed yet: prompts are most of a request. A name that occurs twice has the last
/// of its values.
pub(crate) type Object = BTreeMap<String, Box<RawValue>>;

/// Reads the fields of an object that are not null.
pub(crate) fn read<T: DeserializeOwned>(object: &Object) -> Result<T, FieldError> {
    let present = object.iter().filter(|(_, value)| value.get() != "null");
    let fields = MapDeserializer::new(present.map(|(name, value)| (name.as_str(), value.as_ref())));
    serde_path_to_error::deserialize(fields).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        let allowed = if error.is_data() { error.to_string() } else { format!("JSON, but: {error}") };
        match object.get(path.split(['.', '[']).next().unwrap_or_default()) {
            Some(value) => FieldError::new(path, value, allowed),
            None => FieldError::new("body", "not readable", format!("an object of known fields, but: {error}")),
        }
    })
}

/// A value in any of its accepted forms.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lax<T>(pub(crate) T);

impl<'de, T: FromJson> Deserialize<'de> for Lax<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        T::from_json(&value).map(Self).ok_or_else(|| D::Error::custom(T::ALLOWED))
    }
}

/// A type that is read from several forms of JSON.
pub(crate) trait FromJson: Sized {
    /// What is allowed, for errors.
    const ALLOWED: &'static str;

    fn from_json(value: &Value) -> Option<Self>;
}

impl FromJson for i64 {
    const ALLOWED: &'static str = "a whole number of 64 bits";

    fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(truth) => Some(Self::from(*truth)),
            Value::Number(number) => number.as_i64().or_else(|| {
                let float = number.as_f64()?;
                // 2^63 is the first float beyond.
                (float.fract() == 0.0 && float.abs() < 9_223_372_036_854_775_808.0).then_some(float as Self)
            }),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        }
    }
}

impl FromJson for f64 {
    const ALLOWED: &'static str = "a number";

    fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(truth) => Some(Self::from(u8::from(*truth))),
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        }
    }
}

impl FromJson for bool {
    const ALLOWED: &'static str = "true or false";

    fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(truth) => Some(*truth),
            Value::Number(number) => match number.as_f64() {
                Some(0.0) => Some(false),
                Some(1.0) => Some(true),
                _ => None,
            },
            Value::String(text) => match text.to_ascii_lowercase().as_str() {
                "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
                "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }
}

impl FromJson for String {
    const ALLOWED: &'static str = "a string";

    fn from_json(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

/// A string, or a list of strings.
impl FromJson for Vec<String> {
    const ALLOWED: &'static str = "a string or a list of strings";

    fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(vec![text.clone()]),
            Value::Array(values) => values.iter().map(String::from_json).collect(),
            _ => None,
        }
    }
}
