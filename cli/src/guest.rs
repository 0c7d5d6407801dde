//! `evenkeel guest`: builds the interpreter of the sandbox before a reward worker needs it. `evenkeel sandbox-worker`:
//! runs programs with it in a worker process, where this program has the feature `sandbox`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_sandbox::guest::{self, Form, GuestError};
use evenkeel_sandbox::{WorkerProcessCommand, prepare_processes};

use crate::arguments::GuestOptions;

/// Starts this binary as a worker process.
#[cfg(feature = "sandbox")]
#[expect(clippy::unnecessary_wraps, reason = "without the feature it fails where there is no other program")]
pub(crate) fn worker_process(folder: &Path) -> Result<WorkerProcessCommand, GuestError> {
    use std::path::PathBuf;
    // The running binary, even if its file was replaced.
    let program = PathBuf::from("/proc/self/exe");
    let program = if program.exists() { program } else { std::env::current_exe().unwrap_or_default() };
    Ok(WorkerProcessCommand { program, arguments: vec!["sandbox-worker".into(), folder.into()] })
}

/// Starts the builder of the interpreter as a worker process.
#[cfg(not(feature = "sandbox"))]
pub(crate) fn worker_process(folder: &Path) -> Result<WorkerProcessCommand, GuestError> {
    evenkeel_sandbox::builder_process(folder)
}

/// Starts a worker process with sessions, whose number is to be added.
pub(crate) fn session_process(folder: &Path) -> Result<WorkerProcessCommand, GuestError> {
    let mut command = worker_process(folder)?;
    command.arguments.push("--sessions".into());
    Ok(command)
}

/// `evenkeel sandbox-worker`: the worker process that [`worker_process`] and [`session_process`] start.
#[cfg(feature = "sandbox")]
pub(crate) fn sandbox_worker(options: &crate::arguments::SandboxWorkerOptions) -> Result<ExitCode> {
    match options.sessions {
        None => evenkeel_sandbox::run_worker_process(&options.dir)?,
        Some(sessions) => evenkeel_sandbox::run_session_process(&options.dir, sessions)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the interpreter and prints its folder.
pub(crate) fn make(options: &GuestOptions) -> Result<ExitCode> {
    let folder = match &options.dir {
        Some(folder) => folder.clone(),
        None => guest::default_folder()?,
    };
    prepare_processes(&folder, Form::Timed, worker_process, &|line| print_err!("{line}"))?;
    print_out!("{}", folder.display());
    Ok(ExitCode::SUCCESS)
}
