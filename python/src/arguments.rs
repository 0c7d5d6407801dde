//! Arguments of calls: what has another type or another length is refused by the argument's name.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFrozenSet, PyInt, PySet, PyString};

use crate::errors::Exception;

/// An argument's type, as messages call it.
fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "another type".to_owned(), |name| name.to_string())
}

fn wrong_type(name: &str, value: &Bound<'_, PyAny>, allowed: &str) -> PyErr {
    let message = format!("{name} is of type {}, allowed: {allowed}", type_name(value));
    Exception::ArgumentType.with(value.py(), message)
}

/// Reads an argument as a Python string, and refuses any other type by the argument's name.
pub(crate) fn text<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    match value.cast::<PyString>() {
        Ok(text) => Ok(text.clone()),
        Err(_) => Err(wrong_type(name, value, "str")),
    }
}

/// A text, or `None`.
pub(crate) fn optional_text<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyString>>> {
    if value.is_none() { Ok(None) } else { text(name, value).map(Some) }
}

/// A whole number; one beyond 64 bits is as large as they hold.
pub(crate) fn whole(name: &str, value: &Bound<'_, PyAny>) -> PyResult<i64> {
    match value.cast::<PyInt>() {
        Ok(number) if !value.is_instance_of::<PyBool>() => {
            let is_negative = || number.lt(0).unwrap_or_default();
            Ok(number.extract().unwrap_or_else(|_| if is_negative() { i64::MIN } else { i64::MAX }))
        }
        _ => Err(wrong_type(name, value, "int")),
    }
}

/// The items of a sequence, which a text is not, nor what has keys or no order.
pub(crate) fn items<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let refuse = || wrong_type(name, value, "a sequence");
    if value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>()
        || value.is_instance_of::<PyDict>()
        || value.is_instance_of::<PySet>()
        || value.is_instance_of::<PyFrozenSet>()
        || value.len().is_err()
    {
        return Err(refuse());
    }
    value.try_iter().map_err(|_| refuse())?.collect()
}

/// The texts of one gold answer: one, or several of which any is right.
pub(crate) fn gold<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyString>>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(vec![text.clone()]);
    }
    let refuse = |value| wrong_type(name, value, "str or a sequence of str");
    let items = items(name, value).map_err(|_| refuse(value))?;
    items.iter().map(|item| item.cast::<PyString>().cloned().map_err(|_| refuse(item))).collect()
}

/// Refuses a sequence whose length is not that of the completions.
pub(crate) fn same_length(py: Python<'_>, name: &str, length: usize, completions: usize) -> PyResult<()> {
    if length == completions {
        return Ok(());
    }
    let message = format!("length of {name} is {length}, allowed: {completions}, the length of completions");
    Err(Exception::ArgumentValue.with(py, message))
}
