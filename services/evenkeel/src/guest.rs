//! `evenkeel guest`: the interpreter of the sandbox, built and compiled before a reward worker needs it. And the processes that run
//! programs with it: this binary again.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_sandbox::{CellCommand, Interpreter, guest, serve_cell};

use crate::arguments::{CellOptions, GuestOptions};

/// Starts this binary as a process that runs programs.
pub(crate) fn cells(folder: &Path) -> CellCommand {
    // The file that runs, also after another one took its name.
    let program = PathBuf::from("/proc/self/exe");
    let program = if program.exists() { program } else { std::env::current_exe().unwrap_or_default() };
    CellCommand { program, arguments: vec!["sandbox-cell".into(), folder.into()] }
}

/// `evenkeel sandbox-cell`: what [`cells`] starts.
pub(crate) fn cell(options: &CellOptions) -> Result<ExitCode> {
    serve_cell(&options.dir)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the folder in which the interpreter then lies.
#[expect(clippy::print_stderr, clippy::print_stdout, reason = "what a person and a script read")]
pub(crate) fn make(options: &GuestOptions) -> Result<ExitCode> {
    let folder = match &options.dir {
        Some(folder) => folder.clone(),
        None => guest::default_folder()?,
    };
    let progress = |line: &str| eprintln!("{line}");
    Interpreter::load(&folder, 1, &progress)?;
    println!("{}", folder.display());
    Ok(ExitCode::SUCCESS)
}
