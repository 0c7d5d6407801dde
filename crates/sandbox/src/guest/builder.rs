//! Runs the program that builds the guest.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Form, GuestError};

/// Name of the program and of its package.
pub const BUILDER: &str = "evenkeel-guest";

/// Lines of output that an error includes.
const LINES: usize = 20;

/// Builds the guest in a folder.
pub(super) fn run(folder: &Path, form: Form, progress: &dyn Fn(&str)) -> Result<(), GuestError> {
    let program = find().ok_or_else(|| GuestError::NoBuilder { folder: folder.to_owned() })?;
    let mut command = Command::new(&program);
    command.arg("--dir").arg(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    if form == Form::Counted {
        command.arg("--counted");
    }
    let mut builder = command.spawn().map_err(GuestError::io(&program))?;
    let mut last = Vec::new();
    // The pipe closes when the builder exits.
    for line in builder.stderr.take().map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
        progress(&line);
        if last.len() == LINES {
            last.remove(0);
        }
        last.push(line);
    }
    match builder.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(GuestError::Build(format!("{status}: {}", last.join("\n")))),
        Err(error) => Err(GuestError::io(&program)(error)),
    }
}

/// `EVENKEEL_GUEST_BUILDER`, or the builder in the folder of this program (for tests, in its parent), or the builder on
/// the search path.
pub(crate) fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("EVENKEEL_GUEST_BUILDER").filter(|named| !named.is_empty()) {
        return Some(named.into());
    }
    let name = format!("{BUILDER}{}", std::env::consts::EXE_SUFFIX);
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.ancestors().skip(1).take(2).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside.chain(std::env::split_paths(&path)).map(|folder| folder.join(&name)).find(|program| program.is_file())
}
