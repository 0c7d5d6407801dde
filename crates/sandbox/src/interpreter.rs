//! The interpreter, loaded once per process: the form that is limited by time, and the form that counts instructions,
//! each on first use.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::guest::{self, Form, GuestError, LoadError};
use crate::sandbox::{Sandbox, engine};

/// The Python interpreter of the sandbox: the compiled guest, which is loaded when it is first needed.
pub struct Interpreter {
    folder: PathBuf,
    workers: usize,
    timed: OnceLock<Sandbox>,
    counted: OnceLock<Sandbox>,
    loading: Mutex<()>,
}

impl Interpreter {
    /// Loads the guest for this many programs at once, and has it built if it is missing. `progress` is called with
    /// messages about that.
    ///
    /// # Errors
    ///
    /// What is missing on this machine.
    pub fn load(folder: &Path, workers: usize, progress: &dyn Fn(&str)) -> Result<Self, GuestError> {
        Self::with_form(folder, workers, false, progress)
    }

    /// [`load`](Self::load), for programs whose instructions are counted.
    ///
    /// # Errors
    ///
    /// What is missing on this machine.
    pub fn load_counted(folder: &Path, workers: usize, progress: &dyn Fn(&str)) -> Result<Self, GuestError> {
        Self::with_form(folder, workers, true, progress)
    }

    fn with_form(folder: &Path, workers: usize, counted: bool, progress: &dyn Fn(&str)) -> Result<Self, GuestError> {
        let timed = OnceLock::new();
        let counting = OnceLock::new();
        let loading = Mutex::new(());
        let interpreter = Self { folder: folder.to_owned(), workers, timed, counted: counting, loading };
        interpreter.form(counted, progress)?;
        Ok(interpreter)
    }

    /// The form that counts instructions, or the form that is limited by time.
    pub(crate) fn sandbox(&self, deterministic: bool) -> Result<&Sandbox, GuestError> {
        self.form(deterministic, &|_| {})
    }

    fn form(&self, counted: bool, progress: &dyn Fn(&str)) -> Result<&Sandbox, GuestError> {
        let form = if counted { &self.counted } else { &self.timed };
        if let Some(sandbox) = form.get() {
            return Ok(sandbox);
        }
        let _loaded_once = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sandbox) = form.get() {
            return Ok(sandbox);
        }
        let sandbox = sandbox(&self.folder, self.workers, counted, progress)?;
        Ok(form.get_or_init(|| sandbox))
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
