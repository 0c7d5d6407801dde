//! Work without the interpreter's lock, also while the interpreter ends.
//!
//! A daemon thread that asks for the lock of an interpreter that ends is ended by it in the middle of native code,
//! which up to Python 3.13 takes the process down with it. So it never asks: it stays where it is until the process is
//! gone.

use std::sync::OnceLock;
use std::thread::{self, ThreadId};

use pyo3::prelude::*;

/// The thread that ends the interpreter.
static ENDS: OnceLock<ThreadId> = OnceLock::new();

/// The interpreter is about to end, by this thread. Nothing but daemon threads runs beside it.
#[pyfunction(name = "_interpreter_ends")]
pub(crate) fn interpreter_ends() {
    ENDS.get_or_init(|| thread::current().id());
}

/// Runs this without the lock.
pub(crate) fn released<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    py.detach(|| {
        let found = work();
        if ENDS.get().is_some_and(|thread| *thread != thread::current().id()) {
            loop {
                thread::park();
            }
        }
        found
    })
}
