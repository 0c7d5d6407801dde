//! `evenkeel-guest`: builds the interpreter of the sandbox before a reward worker needs it. Worker processes of
//! packages, which have the compressed component beside it, and of programs without an interpreter are this program
//! too.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use evenkeel_guest::BuildError;
use evenkeel_sandbox::guest::{self, Form};
use evenkeel_sandbox::{run_session_process, run_worker_process};

/// Builds the interpreter of the sandbox and prints its folder.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Folder to build it in [default: EVENKEEL_GUEST_DIR, or `evenkeel` in the user's cache folder].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Build the form that counts instructions, for deterministic limits.
    #[arg(long)]
    counted: bool,
    /// Build nothing if the folder EVENKEEL_GUEST_IMAGE has it, and print that.
    #[arg(long)]
    find: bool,
    /// Compile nothing: write what would be compiled to a file in this folder, compressed, for a package, and print its
    /// path.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["counted", "find"])]
    pack: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the programs that arrive on standard input, until it closes: a worker process of a pool.
    #[command(hide = true)]
    Worker {
        /// Folder of the interpreter.
        dir: PathBuf,
        /// Sessions that it has room for, instead of single programs.
        #[arg(long, value_name = "N")]
        sessions: Option<usize>,
    },
}

#[expect(clippy::print_stderr, clippy::print_stdout, reason = "output for users and scripts")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(Command::Worker { dir, sessions }) = &arguments.command {
        let ran = match sessions {
            None => run_worker_process(dir),
            Some(sessions) => run_session_process(dir, *sessions),
        };
        return match ran {
            Ok(()) => ExitCode::SUCCESS,
            // The error that wraps it has the message.
            Err(_) => ExitCode::FAILURE,
        };
    }
    let folder = arguments.dir.clone().map_or_else(guest::default_folder, Ok).map_err(BuildError::from);
    match folder.and_then(|folder| build(&folder, &arguments)) {
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

/// Does what is asked for, and returns the folder that has it, or the file.
#[expect(clippy::print_stderr, reason = "progress for users")]
fn build(folder: &Path, arguments: &Arguments) -> Result<PathBuf, BuildError> {
    let progress = |line: &str| eprintln!("{line}");
    let form = if arguments.counted { Form::Counted } else { Form::Timed };
    if let Some(to) = &arguments.pack {
        return evenkeel_guest::pack(folder, to, &progress);
    }
    if arguments.find {
        return evenkeel_guest::find(folder, form, &progress);
    }
    evenkeel_guest::ensure(folder, form, &progress).map(|()| folder.to_owned())
}
