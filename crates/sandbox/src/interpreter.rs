//! The interpreter, loaded once for a process: one that is stopped by time, and one that counts its instructions, made when it is
//! first asked for.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::guest::{self, Form, GuestError};
use crate::sandbox::{Sandbox, engine};

/// The guest, loaded.
pub struct Interpreter {
    folder: PathBuf,
    workers: usize,
    timed: Sandbox,
    counted: OnceLock<Sandbox>,
    making: Mutex<()>,
}

impl Interpreter {
    /// Loads the guest for so many programs at once. What is missing is built and compiled first, which `progress` is told of.
    ///
    /// # Errors
    ///
    /// Says what is missing on this machine.
    pub fn load(folder: &Path, workers: usize, progress: &dyn Fn(&str)) -> Result<Self, GuestError> {
        let timed = sandbox(folder, workers, false, progress)?;
        Ok(Self { folder: folder.to_owned(), workers, timed, counted: OnceLock::new(), making: Mutex::new(()) })
    }

    /// The one that counts instructions, or the one that is stopped by time.
    pub(crate) fn sandbox(&self, deterministic: bool) -> Result<&Sandbox, GuestError> {
        if !deterministic {
            return Ok(&self.timed);
        }
        let _made_once = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sandbox) = self.counted.get() {
            return Ok(sandbox);
        }
        let sandbox = sandbox(&self.folder, self.workers, true, &|_| {})?;
        Ok(self.counted.get_or_init(|| sandbox))
    }
}

fn sandbox(folder: &Path, workers: usize, fuel: bool, progress: &dyn Fn(&str)) -> Result<Sandbox, GuestError> {
    let broken = |error: wasmtime::Error| GuestError::Load(format!("{error:#}"));
    // As many again may go on in a pool that have run for a while.
    let engine = engine(2 * workers, fuel).map_err(broken)?;
    let form = if fuel { Form::Counted } else { Form::Timed };
    let component = guest::load(folder, &engine, form, progress)?;
    Sandbox::new(&engine, &component).map_err(broken)
}
