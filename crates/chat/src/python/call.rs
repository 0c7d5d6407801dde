//! Arguments of a call as Python binds them: by position, then by name.

use minijinja::Error;
use minijinja::value::{Value, ValueKind};

use super::exception::exception;
use super::text;

/// The arguments of one call, taken in the order of the parameters.
pub(super) struct Call<'a> {
    function: &'a str,
    positional: std::slice::Iter<'a, Value>,
    named: Vec<(String, Value)>,
}

impl<'a> Call<'a> {
    pub(super) fn new(function: &'a str, args: &'a [Value]) -> Self {
        let (positional, named) = match args.split_last() {
            Some((last, rest)) if last.is_kwargs() => (rest, pairs(last)),
            _ => (args, Vec::new()),
        };
        Self { function, positional: positional.iter(), named }
    }

    /// The next parameter, or none where it is not given.
    pub(super) fn optional(&mut self, name: &str) -> Option<Value> {
        if let Some(value) = self.positional.next() {
            return Some(value.clone());
        }
        let index = self.named.iter().position(|(key, _)| key == name)?;
        Some(self.named.swap_remove(index).1)
    }

    pub(super) fn required(&mut self, name: &str) -> Result<Value, Error> {
        let function = self.function;
        let missing = || exception(format!("{function}() missing required argument: '{name}'"));
        self.optional(name).ok_or_else(missing)
    }

    pub(super) fn text(&mut self, name: &str) -> Result<String, Error> {
        let value = self.required(name)?;
        value.as_str().map(str::to_owned).ok_or_else(|| self.wrong(name, "str", &value))
    }

    /// A text, or none where it is not given or is None.
    pub(super) fn optional_text(&mut self, name: &str) -> Result<Option<String>, Error> {
        match self.optional(name) {
            None => Ok(None),
            Some(value) if value.is_none() => Ok(None),
            Some(value) => {
                value.as_str().map(|text| Some(text.to_owned())).ok_or_else(|| self.wrong(name, "str or None", &value))
            }
        }
    }

    /// A whole number, or none where it is not given or is None.
    pub(super) fn optional_int(&mut self, name: &str) -> Result<Option<i64>, Error> {
        match self.optional(name) {
            None => Ok(None),
            Some(value) if value.is_none() => Ok(None),
            Some(value) => i64::try_from(value.clone()).map(Some).map_err(|_| self.wrong(name, "int", &value)),
        }
    }

    /// Refuses arguments that no parameter has taken.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        if self.positional.next().is_some() {
            return Err(exception(format!("{}() takes fewer positional arguments", self.function)));
        }
        match self.named.first() {
            Some((name, _)) => {
                Err(exception(format!("{}() got an unexpected keyword argument '{name}'", self.function)))
            }
            None => Ok(()),
        }
    }

    fn wrong(&self, name: &str, wanted: &str, value: &Value) -> Error {
        exception(format!("{}() argument '{name}' must be {wanted}, not {}", self.function, type_name(value)))
    }
}

fn pairs(named: &Value) -> Vec<(String, Value)> {
    let pairs = named.as_object().and_then(|object| object.try_iter_pairs());
    pairs.into_iter().flatten().map(|(key, value)| (text::shown(&key), value)).collect()
}

/// Python's name of a value's type.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value.kind() {
        _ if value.is_undefined() => "Undefined",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float",
        ValueKind::String => "str",
        ValueKind::Seq | ValueKind::Iterable if value.is_tuple() => "tuple",
        ValueKind::Seq | ValueKind::Iterable => "list",
        ValueKind::Map => "dict",
        _ => "object",
    }
}
