//! Texts of Python as UTF-8.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::PyString;

/// A text; each byte of a lone surrogate, which UTF-8 does not have, is U+FFFD.
pub(crate) fn lossy<'a>(text: &'a Bound<'_, PyString>) -> Cow<'a, str> {
    match text.to_str() {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(text.to_string_lossy().into_owned()),
    }
}

/// A text; `None` if it has a lone surrogate.
pub(crate) fn exact<'a>(text: &'a Bound<'_, PyString>) -> Option<&'a str> {
    text.to_str().ok()
}
