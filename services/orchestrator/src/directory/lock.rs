//! The lock of a run directory: one process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::Duration;

use crate::error::RunError;

/// The file that is locked. It stays; the operating system releases the lock with the process, however it ends.
pub(super) const FILE: &str = ".lock";

/// How often a lock that is taken is tried, and the pause between.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);

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
        for _ in 0..ATTEMPTS {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                // Perhaps a reader.
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
                Err(TryLockError::Error(error)) => return Err(RunError::file(&path)(error)),
            }
        }
        Err(RunError::directory(directory, "another process writes to it, allowed: one at a time"))
    }
}

/// Whether a process has the lock. Linux says so without the lock being touched; elsewhere, and where Linux does not say, it is asked for and given
/// back at once, for which a run that starts waits.
pub(crate) fn is_locked(directory: &Path) -> bool {
    is_listed(directory).unwrap_or_else(|| is_held(directory))
}

/// Whether the system lists the lock as held; absent where it does not list any.
#[cfg(target_os = "linux")]
fn is_listed(directory: &Path) -> Option<bool> {
    use std::os::unix::fs::MetadataExt;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let Ok(data) = std::fs::metadata(directory.join(FILE)) else { return Some(false) };
    // `1: FLOCK ADVISORY WRITE 4711 fe:01:1234 0 EOF`: device and inode of the file; the inode tells directories of one disk apart.
    let inode = format!(":{}", data.ino());
    let is_this = |line: &str| line.contains("FLOCK") && line.split_whitespace().any(|word| word.ends_with(&inode));
    Some(locks.lines().any(is_this))
}

#[cfg(not(target_os = "linux"))]
fn is_listed(_: &Path) -> Option<bool> {
    None
}

/// Whether the lock is refused to somebody who would share it.
fn is_held(directory: &Path) -> bool {
    let Ok(file) = File::open(directory.join(FILE)) else { return false };
    match file.try_lock_shared() {
        // Closing the file gives it back.
        Ok(()) => false,
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_seen_from_outside() {
        for is_seen in [is_locked, is_held] {
            let dir = tempfile::tempdir().unwrap();
            assert!(!is_seen(dir.path()));
            let lock = Lock::take(dir.path()).unwrap();
            assert!(is_seen(dir.path()));
            drop(lock);
            assert!(!is_seen(dir.path()) && dir.path().join(FILE).exists());
        }
    }

    #[test]
    fn one_process_has_a_directory_and_somebody_who_looks_keeps_none_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::take(dir.path()).unwrap();
        let refused = Lock::take(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("another process writes to it"), "{refused}");
        drop(lock);
        let looker = File::open(dir.path().join(FILE)).unwrap();
        looker.try_lock_shared().unwrap();
        let done = std::thread::spawn(move || {
            std::thread::sleep(PAUSE * 2);
            drop(looker);
        });
        Lock::take(dir.path()).unwrap();
        done.join().unwrap();
    }
}
