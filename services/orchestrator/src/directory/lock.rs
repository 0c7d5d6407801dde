//! One process at a time in a run directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use crate::error::RunError;

/// The file that is locked. It stays; the lock is the system's and ends with the process, however that ends.
pub(super) const FILE: &str = ".lock";

/// The hold on a directory.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "open as long as the lock is held")] File);

impl Lock {
    /// Takes it, or says who is in the way.
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
