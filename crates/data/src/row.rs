//! A row of a data set: a JSON object, whatever file format it came from.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;

use evenkeel_proto::FieldError;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::Reason;
use crate::unique_keys;

/// Why a row cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct RowError {
    /// Which of the fixed reasons it is.
    pub reason: Reason,
    pub problem: RowProblem,
}

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowProblem {
    /// A field, its value and what is allowed.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// Something that is not one value: a missing column, another row.
    #[error("{0}")]
    Other(String),
}

impl RowError {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, problem: RowProblem::Other(message.into()) }
    }

    /// A field that was refused.
    pub(crate) fn field(reason: Reason, error: FieldError) -> Self {
        Self { reason, problem: error.into() }
    }

    /// The field that was refused, what it was, and what is allowed.
    pub(crate) fn kind(reason: Reason, name: &str, value: &Value, allowed: &str) -> Self {
        Self::field(reason, refused(name, kind(value), allowed))
    }
}

/// The text with null in place of NaN and the infinities, which Python's `json` writes for numbers that JSON does not
/// have; `None` without any. A column that holds one counts as absent, as one that is null.
fn without_non_finite(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let mut in_text = false;
    let mut found = false;
    while let Some(first) = rest.chars().next() {
        let word = if in_text {
            None
        } else {
            ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| rest.starts_with(word))
        };
        let length = match (word, first) {
            (Some(word), _) => word.len(),
            (None, '\\') => rest.chars().take(2).map(char::len_utf8).sum(),
            (None, _) => first.len_utf8(),
        };
        in_text ^= first == '"';
        found |= word.is_some();
        out.push_str(word.map_or(&rest[..length], |_| "null"));
        rest = &rest[length..];
    }
    found.then_some(out)
}

/// A field of a row, in backticks since columns may have any name, its value and what is allowed.
pub(crate) fn refused(name: impl Display, value: impl Display, allowed: impl Into<String>) -> FieldError {
    FieldError::new(format!("`{name}`"), value, allowed)
}

/// Where a row stands in its file, as messages say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowLocation {
    /// A line of a text file, from 1 on.
    Line(usize),
    /// A row of a table or an element of a JSON array, from 1 on.
    Row(usize),
}

impl RowLocation {
    /// Number of the row in its file, from 1. A row without a name is called `FILE#NUMBER`.
    pub fn number(self) -> usize {
        match self {
            Self::Line(number) | Self::Row(number) => number,
        }
    }
}

impl Display for RowLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Row(number) => write!(f, "row {number}"),
        }
    }
}

/// A row and its place in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct DataRow {
    place: RowLocation,
    values: Map<String, Value>,
    /// The row as it was written, for numbers that lose digits as [`Value`]s.
    text: Option<String>,
    /// All columns of the file, where `values` has only those that were asked for.
    columns: Option<Arc<str>>,
}

impl DataRow {
    /// The row at a place of a table, of whose columns only some were read; `columns` names all of them.
    pub(crate) fn of_table(place: RowLocation, values: Map<String, Value>, columns: Arc<str>) -> Self {
        Self { place, values, text: None, columns: Some(columns) }
    }

    /// The row on line `number` of a file, from 1 on, written as JSON.
    ///
    /// # Errors
    /// Text that is not a JSON object.
    pub fn parse(number: usize, text: impl Into<String>) -> Result<Self, RowError> {
        Self::parse_at(RowLocation::Line(number), text)
    }

    /// The row at a place of a file, written as JSON.
    pub(crate) fn parse_at(place: RowLocation, text: impl Into<String>) -> Result<Self, RowError> {
        let mut text = text.into();
        let mut parsed = unique_keys::parse(&text);
        if parsed.is_err()
            && let Some(nulls) = without_non_finite(&text)
        {
            (parsed, text) = (unique_keys::parse(&nulls), nulls);
        }
        match parsed {
            Ok(Value::Object(values)) => Ok(Self { place, values, text: Some(text), columns: None }),
            Ok(other) => {
                let error = FieldError::new("the row", kind(&other), "a JSON object");
                Err(RowError::field(Reason::InvalidRow, error))
            }
            Err(error) => Err(RowError::new(Reason::InvalidRow, format!("not JSON: {error}"))),
        }
    }

    /// Place of the row in its file.
    pub fn location(&self) -> RowLocation {
        self.place
    }

    /// Number of the row in its file, from 1.
    pub fn number(&self) -> usize {
        self.place.number()
    }

    /// The value at a path of names between dots; null counts as absent.
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.find(path).filter(|value| !value.is_null())
    }

    fn find(&self, path: &str) -> Option<&Value> {
        // A column may have a dot in its name.
        let nested = || {
            let mut names = path.split('.');
            let first = self.values.get(names.next()?)?;
            names.try_fold(first, |value, name| value.get(name))
        };
        self.values.get(path).or_else(nested)
    }

    /// The texts of the scalars at a path: of a list one for each value that is not null. Numbers are as they are
    /// written.
    pub(crate) fn texts(&self, path: &str) -> Option<Vec<Result<String, &Value>>> {
        let found = self.get(path)?;
        let values = found.as_array().map_or(std::slice::from_ref(found), Vec::as_slice);
        let text = |(index, value): (usize, &'_ Value)| match value {
            Value::String(text) => Ok(text.clone()),
            Value::Bool(truth) => Ok(truth.to_string()),
            Value::Number(number) if number.is_f64() => {
                let index = found.is_array().then_some(index);
                Ok(self.written(path, index).unwrap_or_else(|| number.to_string()))
            }
            Value::Number(number) => Ok(number.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => Err(index),
        };
        let texts = values.iter().enumerate().filter(|(_, value)| !value.is_null());
        Some(texts.map(|pair| text(pair).map_err(|index| &values[index])).collect())
    }

    /// The JSON at a path, as the file has it where that is known.
    pub(crate) fn json(&self, path: &str) -> Option<String> {
        let value = self.get(path)?;
        Some(self.written(path, None).unwrap_or_else(|| value.to_string()))
    }

    /// The columns that are not null, each as the file has it.
    pub(crate) fn written_columns(&self) -> BTreeMap<String, Box<RawValue>> {
        let written = self.text.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let mut columns: BTreeMap<String, Box<RawValue>> = written.unwrap_or_else(|| {
            let column =
                |(name, value): (&String, &Value)| Some((name.clone(), RawValue::from_string(value.to_string()).ok()?));
            self.values.iter().filter_map(column).collect()
        });
        columns.retain(|_, value| value.get() != "null");
        columns
    }

    /// The JSON at a path, or of an element of the list there, as the file has it.
    fn written(&self, path: &str, index: Option<usize>) -> Option<String> {
        fn object(text: &str) -> Option<BTreeMap<String, &RawValue>> {
            serde_json::from_str(text).ok()
        }
        let columns = object(self.text.as_deref()?)?;
        let nested = || {
            let mut names = path.split('.');
            let first = *columns.get(names.next()?)?;
            names.try_fold(first, |value, name| object(value.get())?.get(name).copied())
        };
        let found = columns.get(path).copied().or_else(nested)?;
        match index {
            None => Some(found.get().to_owned()),
            Some(index) => {
                let values: Vec<&RawValue> = serde_json::from_str(found.get()).ok()?;
                Some(values.get(index)?.get().to_owned())
            }
        }
    }

    /// Whether there is a column of this name, or a field of this path, and null in it.
    pub(crate) fn is_null(&self, path: &str) -> bool {
        self.find(path).is_some_and(Value::is_null)
    }

    /// The columns of its file, for messages.
    pub(crate) fn columns(&self) -> String {
        match &self.columns {
            Some(columns) => columns.to_string(),
            None => self.values.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
        }
    }
}

/// A text, or a number as it is written.
pub(crate) fn text(name: &str, value: &Value) -> Result<String, RowError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(RowError::kind(Reason::InvalidRow, name, other, "a text or a number")),
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

    fn row(json: &str) -> Result<DataRow, String> {
        DataRow::parse(7, json).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_that_json_does_not_have_are_absent_columns() {
        let row =
            DataRow::parse(1, r#"{"a": NaN, "b": [1, -Infinity], "c": "NaN \" Infinity", "d": Infinity}"#).unwrap();
        assert_eq!((row.get("a"), row.get("d")), (None, None));
        assert_eq!(row.get("b").unwrap().to_string(), "[1,null]");
        assert_eq!(row.get("c").unwrap(), "NaN \" Infinity");
        for wrong in ["{\"a\": nan}", "{\"a\": NaNs}", "NaN"] {
            assert!(DataRow::parse(1, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_are_found_by_path_and_null_is_absent() {
        let row = row(r#"{"a": {"b": 1, "n": null}, "c.d": 2, "e": null}"#).unwrap();
        assert_eq!((row.get("a.b"), row.get("c.d")), (Some(&1.into()), Some(&2.into())));
        assert_eq!((row.get("e"), row.get("a.c"), row.get("x")), (None, None, None));
        assert!(row.is_null("e") && row.is_null("a.n") && !row.is_null("a.b") && !row.is_null("x.y"));
        assert_eq!((row.number(), row.location(), row.columns().as_str()), (7, RowLocation::Line(7), "a, c.d, e"));
    }

    #[test]
    fn only_json_objects_are_rows() {
        assert!(row("{").unwrap_err().starts_with("not JSON: "));
        assert_eq!(row("[1]").unwrap_err(), "the row is a list, allowed: a JSON object");
    }

    #[test]
    fn numbers_are_texts_as_they_are_written() {
        let json =
            r#"{"a": 7.50, "b": {"c": [1e3, 12345678901234567890123, null, 3, true]}, "d.e": -0.10, "f": [[1]]}"#;
        let row = row(json).unwrap();
        let texts = |path: &str| row.texts(path).unwrap().into_iter().collect::<Result<Vec<_>, _>>();
        assert_eq!(texts("a").unwrap(), ["7.50"]);
        assert_eq!(texts("b.c").unwrap(), ["1e3", "12345678901234567890123", "3", "true"]);
        assert_eq!(texts("d.e").unwrap(), ["-0.10"]);
        assert_eq!(texts("f").unwrap_err(), &serde_json::json!([1]));
        assert!(row.texts("x").is_none());
    }
}
