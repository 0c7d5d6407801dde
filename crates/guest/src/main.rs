//! `evenkeel-guest`: builds the interpreter of the sandbox before a reward worker needs it.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use evenkeel_sandbox::guest::{self, Form};

/// Builds the interpreter of the sandbox and prints its folder.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Folder to build it in [default: EVENKEEL_GUEST_DIR, or `evenkeel` in the user's cache folder].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Build the form that counts instructions, for deterministic limits.
    #[arg(long)]
    counted: bool,
}

#[expect(clippy::print_stderr, clippy::print_stdout, reason = "output for users and scripts")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let form = if arguments.counted { Form::Counted } else { Form::Timed };
    let folder = arguments.dir.map_or_else(guest::default_folder, Ok).map_err(evenkeel_guest::BuildError::from);
    let built = folder.and_then(|folder| {
        evenkeel_guest::ensure(&folder, form, &|line| eprintln!("{line}"))?;
        Ok(folder)
    });
    match built {
        Ok(folder) => {
            println!("{}", folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
