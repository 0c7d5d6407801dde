//! Values as templates see them.

use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::value::Value;
use serde_json::value::RawValue;

use crate::python::{Dict, List};

/// How deep lists and objects may be nested: as deep as `serde_json` reads them.
const MAX_DEPTH: usize = 127;

/// JSON as a template sees it: objects keep the order of their keys, numbers are Python's.
#[derive(Debug, Clone)]
pub struct TemplateValue(Value);

/// Text that is not JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not JSON: {0}")]
pub struct NoJson(String);

impl TemplateValue {
    /// Reads a text. Whole numbers are exact up to 128 bits, which those in a [`serde_json::Value`] are not.
    ///
    /// # Errors
    /// Text that is not JSON, or lists and objects nested more than 127 deep.
    pub fn parse(text: &str) -> Result<Self, NoJson> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|error| NoJson(error.to_string()))?;
        Self::of_raw(raw)
    }

    /// Reads the JSON of a part of a larger text; see [`parse`](Self::parse).
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn of_raw(raw: &RawValue) -> Result<Self, NoJson> {
        of_raw(raw, 0).map(Self)
    }

    pub(crate) fn inner(&self) -> &Value {
        &self.0
    }

    /// The values of an object by their names; none where it is something else.
    pub(crate) fn fields(&self) -> Option<Arc<Dict>> {
        Dict::of(&self.0)
    }
}

impl From<&serde_json::Value> for TemplateValue {
    fn from(value: &serde_json::Value) -> Self {
        Self(of_json(value))
    }
}

impl From<&serde_json::Map<String, serde_json::Value>> for TemplateValue {
    fn from(object: &serde_json::Map<String, serde_json::Value>) -> Self {
        Self(of_object(object))
    }
}

impl FromIterator<TemplateValue> for TemplateValue {
    fn from_iter<I: IntoIterator<Item = Self>>(items: I) -> Self {
        Self(Value::from_object(List(items.into_iter().map(|item| item.0).collect())))
    }
}

fn of_json(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(value) => Value::from(*value),
        serde_json::Value::String(value) => Value::from(value.as_str()),
        serde_json::Value::Array(values) => Value::from_object(List(values.iter().map(of_json).collect())),
        serde_json::Value::Object(object) => of_object(object),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::from(number),
            (None, Some(number)) => Value::from(number),
            (None, None) => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
    }
}

fn of_object(object: &serde_json::Map<String, serde_json::Value>) -> Value {
    let pairs = object.iter().map(|(key, value)| (key.clone(), of_json(value)));
    Value::from_object(Dict(pairs.collect()))
}

fn of_raw(raw: &RawValue, depth: usize) -> Result<Value, NoJson> {
    let text = raw.get();
    let broken = |error: serde_json::Error| NoJson(error.to_string());
    if depth > MAX_DEPTH {
        return Err(NoJson(format!("nested more than {MAX_DEPTH} deep")));
    }
    match text.as_bytes().first() {
        Some(b'{') => {
            let pairs: IndexMap<String, &RawValue> = serde_json::from_str(text).map_err(broken)?;
            let pairs = pairs.into_iter().map(|(key, raw)| of_raw(raw, depth + 1).map(|value| (key, value)));
            Ok(Value::from_object(Dict(pairs.collect::<Result<_, _>>()?)))
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).map_err(broken)?;
            let items = items.into_iter().map(|raw| of_raw(raw, depth + 1));
            Ok(Value::from_object(List(items.collect::<Result<_, _>>()?)))
        }
        Some(b'-' | b'0'..=b'9') => Ok(number(text)),
        _ => serde_json::from_str(text).map(|value| of_json(&value)).map_err(broken),
    }
}

/// A number as Python reads it: whole ones exactly, and those that no double holds as infinite.
fn number(text: &str) -> Value {
    if let Ok(number) = text.parse::<i64>() {
        return Value::from(number);
    }
    match text.parse::<i128>() {
        Ok(number) => Value::from(number),
        Err(_) => Value::from(text.parse::<f64>().unwrap_or(f64::NAN)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python::str_of;

    #[test]
    fn text_and_parsed_json_are_the_same_to_a_template() {
        let text = r#"{"b": [1, -2.5, "x\u00e9", null, true, 18446744073709551615], "a": {}}"#;
        let parsed = TemplateValue::from(&serde_json::from_str::<serde_json::Value>(text).unwrap());
        assert_eq!(str_of(parsed.inner()).unwrap(), str_of(TemplateValue::parse(text).unwrap().inner()).unwrap());
    }

    #[test]
    fn a_key_that_occurs_twice_has_its_last_value() {
        assert_eq!(
            str_of(TemplateValue::parse(r#"{"a": 1, "b": 2, "a": 3}"#).unwrap().inner()).unwrap(),
            "{'a': 3, 'b': 2}"
        );
    }

    #[test]
    fn numbers_are_exact() {
        let value = TemplateValue::parse("[1180591620717411303424, 1E400, 0.1, 2.2250738585072011e-308]").unwrap();
        assert_eq!(str_of(value.inner()).unwrap(), "[1180591620717411303424, inf, 0.1, 2.225073858507201e-308]");
    }

    #[test]
    fn what_is_no_json_or_nested_too_deep_is_refused() {
        assert!(TemplateValue::parse("{").unwrap_err().to_string().starts_with("not JSON: "));
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(TemplateValue::parse(&deep).is_err());
    }
}
