//! The lock of a process on a run directory, and how far its run is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::files::remove;
use super::lock::Lock;
use crate::error::RunFilesError;

/// The lock of this process on a directory. If it is released before the run has started, the directory is removed.
#[derive(Debug)]
pub(super) struct Ownership {
    path: PathBuf,
    /// Whether the run has started: the directory stays from then on.
    started: AtomicBool,
    /// Whether the checks of the services have passed.
    entered: AtomicBool,
    lock: Lock,
}

impl Ownership {
    pub(super) fn new(path: &Path, lock: Lock, started: bool) -> Arc<Self> {
        let has_begun = || AtomicBool::new(started);
        Arc::new(Self { path: path.to_owned(), started: has_begun(), entered: has_begun(), lock })
    }

    /// Whether the directory is still the one that was locked.
    pub(super) fn check(&self) -> Result<(), RunFilesError> {
        self.lock.check(&self.path)
    }

    /// The run has started.
    pub(super) fn start(&self) {
        self.started.store(true, Ordering::Release);
    }

    /// The checks of the services have passed.
    pub(super) fn enter(&self) {
        self.entered.store(true, Ordering::Release);
    }

    /// Whether they have, now or before a resume.
    pub(super) fn has_entered(&self) -> bool {
        self.entered.load(Ordering::Acquire)
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        if !*self.started.get_mut() {
            // What cannot be removed is reused by the next run that is created here.
            let _ = remove(&self.path);
        }
    }
}
