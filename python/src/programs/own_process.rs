//! What belongs to one process: the threads of a pool, which a forked child does not have.

use pyo3::prelude::*;

use crate::errors::Exception;

/// A value that a forked child neither uses nor drops: there, the locks in it may be held by threads that do not exist,
/// and nothing would join them.
pub(crate) struct OwnProcess<T> {
    process: u32,
    value: Option<T>,
}

impl<T> OwnProcess<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { process: std::process::id(), value: Some(value) }
    }

    /// The value; in another process an exception.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&T> {
        self.value.as_ref().filter(|_| self.process == std::process::id()).ok_or_else(|| {
            let message = "the pool belongs to the process that this one was forked from: make one here";
            Exception::PoolAfterFork.with(py, message.to_owned())
        })
    }
}

impl<T> Drop for OwnProcess<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}
