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

/// Whether a process has the lock, without taking it: somebody who only looks must never be in the way of a run that starts. Where the system
/// does not say who has which lock, nobody has.
pub(crate) fn is_locked(directory: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt;
        let Ok(data) = std::fs::metadata(directory.join(FILE)) else { return false };
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        // `1: FLOCK ADVISORY WRITE 4711 fe:01:1234 0 EOF`: device and inode of the file; the inode tells directories of one disk apart.
        let inode = format!(":{}", data.ino());
        locks.lines().any(|line| line.contains("FLOCK") && line.split_whitespace().any(|word| word.ends_with(&inode)))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = directory;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_lock_is_seen_from_outside_without_taking_it() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_locked(dir.path()));
        let lock = Lock::take(dir.path()).unwrap();
        assert!(is_locked(dir.path()));
        drop(lock);
        assert!(!is_locked(dir.path()) && dir.path().join(FILE).exists());
    }
}
