//! `evenkeel guest`: builds the interpreter of the sandbox before a reward worker needs it. `evenkeel sandbox-worker`:
//! runs programs with it in a worker process.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_sandbox::{Interpreter, WorkerProcessCommand, guest, run_session_process, run_worker_process};

use crate::arguments::{GuestOptions, SandboxWorkerOptions};

/// Starts this binary as a worker process.
pub(crate) fn worker_process(folder: &Path) -> WorkerProcessCommand {
    // The running binary, even if its file was replaced.
    let program = PathBuf::from("/proc/self/exe");
    let program = if program.exists() { program } else { std::env::current_exe().unwrap_or_default() };
    WorkerProcessCommand { program, arguments: vec!["sandbox-worker".into(), folder.into()] }
}

/// Starts this binary as a worker process with sessions, whose number is to be added.
pub(crate) fn session_process(folder: &Path) -> WorkerProcessCommand {
    let mut command = worker_process(folder);
    command.arguments.push("--sessions".into());
    command
}

/// `evenkeel sandbox-worker`: the worker process that [`worker_process`] and [`session_process`] start.
pub(crate) fn sandbox_worker(options: &SandboxWorkerOptions) -> Result<ExitCode> {
    match options.sessions {
        None => run_worker_process(&options.dir)?,
        Some(sessions) => run_session_process(&options.dir, sessions)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Has the interpreter built and prints its folder.
pub(crate) fn make(options: &GuestOptions) -> Result<ExitCode> {
    let folder = match &options.dir {
        Some(folder) => folder.clone(),
        None => guest::default_folder()?,
    };
    let progress = |line: &str| print_err!("{line}");
    Interpreter::load(&folder, 1, &progress)?;
    print_out!("{}", folder.display());
    Ok(ExitCode::SUCCESS)
}
