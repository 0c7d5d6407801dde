//! The interpreter, loaded once per process: the form that is limited by time, and the form that counts instructions, loaded on first use.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::guest::{self, Form, GuestError, LoadError};
use crate::sandbox::{Sandbox, engine};

/// The loaded guest.
pub struct Interpreter {
    folder: PathBuf,
    workers: usize,
    timed: Sandbox,
    counted: OnceLock<Sandbox>,
    loading_counted: Mutex<()>,
}

impl Interpreter {
    /// Loads the guest for this many programs at once, and has it built if it is missing. `progress` is called with messages about that.
    ///
    /// # Errors
    ///
    /// What is missing on this machine.
    pub fn load(folder: &Path, workers: usize, progress: &dyn Fn(&str)) -> Result<Self, GuestError> {
        let timed = sandbox(folder, workers, false, progress)?;
        Ok(Self {
            folder: folder.to_owned(),
            workers,
            timed,
            counted: OnceLock::new(),
            loading_counted: Mutex::new(()),
        })
    }

    /// The form that counts instructions, or the form that is limited by time.
    pub(crate) fn sandbox(&self, deterministic: bool) -> Result<&Sandbox, GuestError> {
        if !deterministic {
            return Ok(&self.timed);
        }
        let _loaded_once = self.loading_counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sandbox) = self.counted.get() {
            return Ok(sandbox);
        }
        let sandbox = sandbox(&self.folder, self.workers, true, &|_| {})?;
        Ok(self.counted.get_or_init(|| sandbox))
    }
}

fn sandbox(folder: &Path, workers: usize, fuel: bool, progress: &dyn Fn(&str)) -> Result<Sandbox, GuestError> {
    let failed = |error: wasmtime::Error| GuestError::Load(LoadError::Engine(error));
    // A pool has as many long-running slots again.
    let engine = engine(2 * workers, fuel).map_err(failed)?;
    let form = if fuel { Form::Counted } else { Form::Timed };
    let component = guest::load(folder, &engine, form, progress)?;
    Sandbox::new(&engine, &component).map_err(failed)
}
