//! A row of a data set: a JSON object, whatever file format it came from.

use serde_json::{Map, Value};

/// Why a row cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RowError(pub(crate) String);

impl RowError {
    /// The field that was refused, what it was, and what is allowed.
    pub(crate) fn field(name: &str, value: &Value, allowed: &str) -> Self {
        Self(format!("`{name}` is {}, allowed: {allowed}", kind(value)))
    }
}

/// A row and its number in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    number: usize,
    values: Map<String, Value>,
}

impl Row {
    /// Row `number` of a file, from 1 on.
    pub fn new(number: usize, values: Map<String, Value>) -> Self {
        Self { number, values }
    }

    /// Row `number` of a file, from 1 on, written as JSON.
    ///
    /// # Errors
    /// Text that is no JSON object.
    pub fn parse(number: usize, text: &str) -> Result<Self, RowError> {
        match serde_json::from_str(text) {
            Ok(Value::Object(values)) => Ok(Self::new(number, values)),
            Ok(other) => Err(RowError(format!("the row is {}, allowed: a JSON object", kind(&other)))),
            Err(error) => Err(RowError(format!("no JSON: {error}"))),
        }
    }

    /// Its number in the file, from 1 on.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The value at a path of names between dots; null counts as absent.
    pub fn get(&self, path: &str) -> Option<&Value> {
        // A column may have a dot in its name.
        let nested = || {
            let mut names = path.split('.');
            let first = self.values.get(names.next()?)?;
            names.try_fold(first, |value, name| value.get(name))
        };
        self.values.get(path).or_else(nested).filter(|value| !value.is_null())
    }

    /// Whether there is a column of this name, and null in it.
    pub(crate) fn is_null(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(Value::is_null)
    }

    /// Its columns, for messages.
    pub(crate) fn columns(&self) -> String {
        self.values.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// A text, or a number as it is written.
pub(crate) fn text(name: &str, value: &Value) -> Result<String, RowError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(RowError::field(name, other, "a text or a number")),
    }
}

/// A JSON value in words.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(json: &str) -> Result<Row, String> {
        Row::parse(7, json).map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_found_by_path_and_null_is_absent() {
        let row = row(r#"{"a": {"b": 1}, "c.d": 2, "e": null}"#).unwrap();
        assert_eq!((row.get("a.b"), row.get("c.d")), (Some(&1.into()), Some(&2.into())));
        assert_eq!((row.get("e"), row.get("a.c"), row.get("x")), (None, None, None));
        assert_eq!((row.number(), row.columns().as_str()), (7, "a, c.d, e"));
    }

    #[test]
    fn only_json_objects_are_rows() {
        assert!(row("{").unwrap_err().starts_with("no JSON: "));
        assert_eq!(row("[1]").unwrap_err(), "the row is a list, allowed: a JSON object");
    }
}
