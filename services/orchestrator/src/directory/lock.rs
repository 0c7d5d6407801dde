//! The lock of a run directory: one process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use crate::error::RunError;

/// The file that is locked. It stays; the operating system releases the lock with the process, however it ends.
pub(super) const FILE: &str = ".lock";

/// The lock on a directory.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "open as long as the lock is held")] File);

impl Lock {
    /// Takes the lock.
    ///
    /// # Errors
    /// Another process has it.
    pub(crate) fn take(directory: &Path) -> Result<Self, RunError> {
        let path = directory.join(FILE);
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(RunError::file(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => {
                Err(RunError::directory(directory, "another process writes to it, allowed: one at a time"))
            }
            Err(TryLockError::Error(error)) => Err(RunError::file(&path)(error)),
        }
    }
}
