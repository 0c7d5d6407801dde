//! `evenkeel guest`: the interpreter of the sandbox, built and compiled before a reward worker needs it.

use std::process::ExitCode;

use anyhow::Result;
use evenkeel_code::{Interpreter, guest};

use crate::arguments::GuestOptions;

/// Prints the folder in which the interpreter then lies.
#[expect(clippy::print_stderr, clippy::print_stdout, reason = "what a person and a script read")]
pub(crate) fn make(options: &GuestOptions) -> Result<ExitCode> {
    let folder = match &options.dir {
        Some(folder) => folder.clone(),
        None => guest::default_folder()?,
    };
    let progress = |line: &str| eprintln!("{line}");
    if options.portable {
        guest::write_portable(&folder, &progress)?;
    } else {
        Interpreter::load(&folder, 1, &progress)?;
    }
    println!("{}", folder.display());
    Ok(ExitCode::SUCCESS)
}
