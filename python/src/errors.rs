//! The package's exceptions, which are defined in Python (`errors.py`), where they can have two bases.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use evenkeel_errors::FieldError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// An exception of the package.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Exception {
    /// An argument has a type that is not allowed.
    ArgumentType,
    /// An argument has a value that is not allowed.
    ArgumentValue,
    /// An invalid verdict was used as if it were right or wrong.
    InvalidVerdict,
    /// A panic.
    Internal,
    /// A pool was used after it was closed.
    PoolClosed,
    /// A pool was used by a forked child.
    PoolAfterFork,
    /// The system has no more threads or descriptors for a pool.
    PoolFailed,
}

impl Exception {
    /// The exception with this message.
    pub(crate) fn with(self, py: Python<'_>, message: String) -> PyErr {
        static TYPES: [PyOnceLock<Py<PyType>>; 7] = [const { PyOnceLock::new() }; 7];
        let (name, slot) = match self {
            Self::ArgumentType => ("ArgumentTypeError", &TYPES[0]),
            Self::ArgumentValue => ("ArgumentValueError", &TYPES[1]),
            Self::InvalidVerdict => ("InvalidVerdict", &TYPES[2]),
            Self::Internal => ("InternalError", &TYPES[3]),
            Self::PoolClosed => ("PoolClosed", &TYPES[4]),
            Self::PoolAfterFork => ("PoolAfterFork", &TYPES[5]),
            Self::PoolFailed => ("PoolFailed", &TYPES[6]),
        };
        match slot.import(py, "evenkeel_rlvr.errors", name) {
            Ok(kind) => PyErr::from_type(kind.clone(), message),
            Err(error) => error,
        }
    }
}

/// The exception for a value that is not allowed.
pub(crate) fn refused(py: Python<'_>, field: &FieldError) -> PyErr {
    Exception::ArgumentValue.with(py, field.to_string())
}

/// Calls a function; a panic in it becomes an exception of the package, and does not pass the boundary.
pub(crate) fn guarded<T>(py: Python<'_>, call: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(Exception::Internal.with(py, said(&*panic))))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a fault of evenkeel_rlvr, please report it: {}", text.unwrap_or("panicked"))
}
