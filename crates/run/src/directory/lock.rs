//! The lock of a run directory: one process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use evenkeel_host::FileStamp;

use crate::error::RunFilesError;
use crate::whole_file::refuse_other_than_file;

/// The file that is locked. It stays; the operating system releases the lock with the process, however it ends.
pub(super) const FILE: &str = ".lock";

/// How often a lock that is taken is tried, and the pause between.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// The lock on a directory: on its file, which every file system can lock, and on the folder itself, whose lock nobody
/// can delete without the folder.
#[derive(Debug)]
pub struct Lock {
    file: File,
    /// Open as long as the lock is held.
    folder: File,
}

impl Lock {
    /// Takes the lock.
    ///
    /// # Errors
    /// Another process has it; what has the file's name is none.
    pub fn take(directory: &Path) -> Result<Self, RunFilesError> {
        let path = directory.join(FILE);
        refuse_other_than_file(directory, FILE)?;
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(RunFilesError::file(&path))?;
        let folder = File::open(directory).map_err(RunFilesError::file(directory))?;
        for _ in 0..ATTEMPTS {
            match file.try_lock().and_then(|()| lock_folder(&folder)) {
                Ok(()) => return Ok(Self { file, folder }),
                // Perhaps a reader.
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
                Err(TryLockError::Error(error)) => return Err(RunFilesError::file(&path)(error)),
            }
        }
        Err(RunFilesError::directory(directory, "another process writes to it, allowed: one at a time"))
    }

    /// Whether the directory is still the one that was locked, and the lock still there: otherwise another process may
    /// write to it, or this one would write to another directory.
    ///
    /// # Errors
    /// A directory that was moved or replaced, or whose file of the lock was.
    pub fn check(&self, directory: &Path) -> Result<(), RunFilesError> {
        let is_there = |path: &Path, held: &File| match (FileStamp::of(path), FileStamp::of_open(held)) {
            (Ok(found), Ok(held)) => Ok(found.is_same_file(&held)),
            (Err(error), _) if error.kind() == ErrorKind::NotFound => Ok(false),
            (Err(error), _) | (_, Err(error)) => Err(RunFilesError::file(path)(error)),
        };
        if !is_there(directory, &self.folder)? {
            let message = "was moved, removed or replaced during the run: the finished steps are where the directory \
                is now; resume the run there";
            return Err(RunFilesError::directory(directory, message));
        }
        if !is_there(&directory.join(FILE), &self.file)? {
            let message = format!(
                "{FILE} was removed or replaced during the run, so another process may write to the directory: the \
                 run ends, and finished steps are kept"
            );
            return Err(RunFilesError::directory(directory, message));
        }
        Ok(())
    }
}

/// Locks the folder itself. Not every file system can; the file is enough then.
fn lock_folder(folder: &File) -> Result<(), TryLockError> {
    match folder.try_lock() {
        Err(TryLockError::Error(_)) => Ok(()),
        tried => tried,
    }
}

/// Whether a process has the lock. Linux says so without the lock being touched; elsewhere, and where Linux does not
/// say, it is asked for and given back at once, for which a run that starts waits.
pub fn is_locked(directory: &Path) -> bool {
    is_listed(directory).unwrap_or_else(|| is_held(directory))
}

/// Whether the system lists the lock as held; absent where it does not list any.
#[cfg(target_os = "linux")]
fn is_listed(directory: &Path) -> Option<bool> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // `1: FLOCK ADVISORY WRITE 4711 fe:01:1234 0 EOF`: device and inode; the inode tells files and folders of one disk
    // apart.
    let both = [directory.join(FILE), directory.to_owned()];
    let inodes: Vec<String> =
        both.iter().filter_map(|path| FileStamp::of(path).ok()).map(|stamp| format!(":{}", stamp.inode)).collect();
    let is_this = |line: &str| {
        let is_inode = |word: &str| inodes.iter().any(|inode| word.ends_with(inode));
        line.contains("FLOCK") && line.split_whitespace().any(is_inode)
    };
    Some(locks.lines().any(is_this))
}

#[cfg(not(target_os = "linux"))]
fn is_listed(_: &Path) -> Option<bool> {
    None
}

/// Whether the lock is refused to a process that would share it.
fn is_held(directory: &Path) -> bool {
    let is_refused = |path: &Path| match File::open(path).map(|file| file.try_lock_shared()) {
        // Closing the file gives it back.
        Ok(Ok(())) | Ok(Err(TryLockError::Error(_))) | Err(_) => false,
        Ok(Err(TryLockError::WouldBlock)) => true,
    };
    let file = directory.join(FILE);
    file.is_file() && is_refused(&file) || is_refused(directory)
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
    fn a_directory_whose_lock_was_deleted_still_belongs_to_one_process_and_that_one_notices() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::take(dir.path()).unwrap();
        lock.check(dir.path()).unwrap();
        std::fs::remove_file(dir.path().join(FILE)).unwrap();
        assert!(is_locked(dir.path()) && is_held(dir.path()));
        let refused = Lock::take(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("another process writes to it"), "{refused}");
        let error = lock.check(dir.path()).unwrap_err().to_string();
        assert!(error.contains(".lock was removed or replaced during the run"), "{error}");
        drop(lock);
        Lock::take(dir.path()).unwrap();
    }

    #[test]
    fn a_directory_that_was_moved_is_missed_also_where_another_one_took_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let [path, elsewhere] = ["run", "moved"].map(|name| dir.path().join(name));
        std::fs::create_dir(&path).unwrap();
        let lock = Lock::take(&path).unwrap();
        std::fs::rename(&path, &elsewhere).unwrap();
        for another in [false, true] {
            if another {
                std::fs::create_dir(&path).unwrap();
            }
            let error = lock.check(&path).unwrap_err().to_string();
            assert!(error.contains("was moved, removed or replaced during the run"), "{error}");
        }
        lock.check(&elsewhere).unwrap();
    }

    #[test]
    fn a_pipe_in_the_place_of_the_lock_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        assert!(std::process::Command::new("mkfifo").arg(dir.path().join(FILE)).status().unwrap().success());
        let error = Lock::take(dir.path()).unwrap_err().to_string();
        assert!(error.contains(".lock is no regular file"), "{error}");
        assert!(!is_held(dir.path()));
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
