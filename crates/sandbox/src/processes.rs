//! Worker processes for the guest of a folder: which program they are, and whether they can load it.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use crate::guest::{self, Form, GuestError};
use crate::worker_process::{StartError, WorkerProcess, WorkerProcessCommand};

/// How to start a worker process with the guest of a folder: a program that calls
/// [`run_worker_process`](crate::run_worker_process), or
/// [`run_session_process`](crate::run_session_process) with the number of sessions that is added to its arguments.
pub type WorkerProcesses = fn(&Path) -> Result<WorkerProcessCommand, GuestError>;

/// The command of worker processes for the guest of a folder, which is built first where it is missing. One process is
/// started to see that it can load the guest. `progress` is called with every line that the builder writes.
///
/// # Errors
///
/// What is missing on this machine.
pub fn prepare_processes(
    folder: &Path,
    form: Form,
    processes: WorkerProcesses,
    progress: &dyn Fn(&str),
) -> Result<WorkerProcessCommand, GuestError> {
    let command = processes(folder)?;
    guest::ensure(folder, form, progress)?;
    let mut first = command.clone();
    if form == Form::Counted {
        first.arguments.push("1".into());
    }
    match WorkerProcess::start(&first, &CancellationToken::new()) {
        Ok(_) => Ok(command),
        Err(StartError::Missing(what)) => Err(GuestError::Worker(what)),
        Err(StartError::Lost(loss)) => Err(GuestError::Worker(loss.to_string())),
    }
}

/// The builder as a worker process with the guest of a folder.
///
/// # Errors
///
/// [`GuestError::NoInterpreter`] if it is not installed.
pub fn builder_process(folder: &Path) -> Result<WorkerProcessCommand, GuestError> {
    let program = guest::find_builder().ok_or(GuestError::NoInterpreter)?;
    Ok(WorkerProcessCommand { program, arguments: vec!["worker".into(), folder.into()] })
}
