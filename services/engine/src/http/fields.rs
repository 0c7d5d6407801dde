//! Parsing the fields of a request as vLLM does: numbers may be strings, 1.0 is an integer, and errors are collected
//! before they are reported.

use evenkeel_errors::FieldError;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::ApiError;

/// A 64-bit integer in any of the accepted forms.
pub(crate) fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(truth) => Some(i64::from(*truth)),
        Value::Number(number) => number.as_i64().or_else(|| {
            let float = number.as_f64()?;
            // 2^63 is the first float beyond.
            (float.fract() == 0.0 && float.abs() < 9_223_372_036_854_775_808.0).then_some(float as i64)
        }),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn truth(value: &Value) -> Option<bool> {
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

/// The fields of a body that were not read yet, and the errors in those that were.
pub(crate) struct Fields {
    map: Map<String, Value>,
    wrong: Vec<FieldError>,
}

impl Fields {
    pub(crate) fn new(map: Map<String, Value>) -> Self {
        Self { map, wrong: Vec::new() }
    }

    /// A field as it was sent, without removing it; `null` counts as absent.
    pub(crate) fn peek(&self, name: &str) -> Option<&Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// A field as it was sent; `null` counts as absent.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }

    fn read<T>(&mut self, name: &str, read: impl Fn(&Value) -> Option<T>, allowed: &str) -> Option<T> {
        let value = self.take(name)?;
        let found = read(&value);
        if found.is_none() {
            self.refuse(name, &value, allowed);
        }
        found
    }

    /// Records that a field is malformed. `path` is its path within the body.
    pub(crate) fn refuse(&mut self, path: &str, value: &Value, allowed: &str) {
        self.wrong.push(FieldError::new(format!("body.{path}"), value, allowed));
    }

    pub(crate) fn int(&mut self, name: &str) -> Option<i64> {
        self.read(name, whole, "a whole number of 64 bits")
    }

    pub(crate) fn float(&mut self, name: &str) -> Option<f64> {
        self.read(name, number, "a number")
    }

    pub(crate) fn bool(&mut self, name: &str) -> Option<bool> {
        self.read(name, truth, "true or false")
    }

    pub(crate) fn string(&mut self, name: &str) -> Option<String> {
        self.read(name, |value| value.as_str().map(str::to_owned), "a string")
    }

    /// Records an error if a field is `null`, for fields for which vLLM refuses that.
    pub(crate) fn not_null(&mut self, name: &str, allowed: &str) {
        if self.map.get(name).is_some_and(Value::is_null) {
            self.refuse(name, &Value::Null, allowed);
        }
    }

    /// A list of integers; elements are refused by index.
    pub(crate) fn ints(&mut self, name: &str) -> Option<Vec<i64>> {
        let values = match self.take(name)? {
            Value::Array(values) => values,
            other => {
                self.refuse(name, &other, "a list of whole numbers");
                return None;
            }
        };
        let mut found = Vec::with_capacity(values.len());
        for (at, value) in values.iter().enumerate() {
            match whole(value) {
                Some(number) => found.push(number),
                None => self.refuse(&format!("{name}.{at}"), value, "a whole number of 64 bits"),
            }
        }
        Some(found)
    }

    /// A string or a list of strings.
    pub(crate) fn strings(&mut self, name: &str) -> Option<Vec<String>> {
        let value = self.take(name)?;
        let found = match &value {
            Value::String(text) => Some(vec![text.clone()]),
            Value::Array(values) => values.iter().map(|value| value.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        if found.is_none() {
            self.refuse(name, &value, "a string or a list of strings");
        }
        found
    }

    /// Refuses the malformed fields recorded so far.
    pub(crate) fn refuse_malformed(&self) -> Result<(), ApiError> {
        if self.wrong.is_empty() { Ok(()) } else { Err(ApiError::malformed_fields(&self.wrong)) }
    }

    /// Refuses fields that were not read, since the sender may rely on them.
    pub(crate) fn refuse_rest(&self) -> Result<(), ApiError> {
        match self.map.iter().find(|(_, value)| !value.is_null()) {
            Some((name, value)) => Err(ApiError::unsupported(name, value, "absent")),
            None => Ok(()),
        }
    }
}

/// A boolean query parameter in any of the forms that vLLM accepts.
#[derive(Debug, Deserialize)]
pub(crate) struct Truth(pub(crate) String);

impl Truth {
    pub(crate) fn read(&self) -> Option<bool> {
        truth(&Value::String(self.0.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::error::ErrorKind;

    fn fields(json: &str) -> Fields {
        Fields::new(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn values_may_have_every_form_that_vllm_accepts() {
        let mut f = fields(r#"{"a": 1.0, "b": "7", "c": true, "d": "0.5", "e": "yes", "f": 0, "g": null, "h": "x"}"#);
        assert_eq!((f.int("a"), f.int("b"), f.int("c"), f.int("g")), (Some(1), Some(7), Some(1), None));
        assert_eq!((f.float("d"), f.bool("e"), f.bool("f")), (Some(0.5), Some(true), Some(false)));
        assert_eq!(f.strings("h"), Some(vec!["x".to_owned()]));
        assert!(f.refuse_malformed().is_ok() && f.refuse_rest().is_ok());
    }

    #[test]
    fn all_errors_are_listed_and_the_first_is_the_param() {
        let mut f =
            fields(r#"{"n": "y", "temperature": "x", "top_k": 1.5, "ids": [1, "a"], "seed": 9223372036854775808}"#);
        assert_eq!((f.int("n"), f.float("temperature"), f.int("top_k"), f.int("seed")), (None, None, None, None));
        f.ints("ids");
        let error = f.refuse_malformed().unwrap_err();
        assert_eq!((error.kind, error.param.as_deref()), (ErrorKind::Malformed, Some("body.n")));
        assert!(error.message.starts_with("5 validation errors:\n  body.n is \"y\""), "{}", error.message);
        assert!(error.message.contains("body.ids.1 is \"a\""), "{}", error.message);
    }

    #[test]
    fn an_unread_field_is_refused_by_name() {
        let error = fields(r#"{"best_of": 2, "x": null}"#).refuse_rest().unwrap_err();
        assert_eq!((error.kind, error.param.as_deref()), (ErrorKind::InvalidValue, Some("best_of")));
    }
}
