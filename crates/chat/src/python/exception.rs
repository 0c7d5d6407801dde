//! Exceptions as Python raises them.

use minijinja::{Error, ErrorKind};

/// An exception in Python's words, which are shown as they are.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Exception(pub(crate) String);

/// What Python raises with this message.
pub(crate) fn exception(message: impl Into<String>) -> Error {
    let message = message.into();
    Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Exception(message))
}
