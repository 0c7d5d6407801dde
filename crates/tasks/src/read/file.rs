//! Opening files that a stranger may have named.

use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file of at most `max_bytes`. A device, a pipe or a file without an end costs a refusal, not the process.
///
/// # Errors
/// What is wrong with the file, to stand behind its path.
pub fn open_regular(path: &Path, max_bytes: u64) -> Result<File, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    // Looked at before it is opened, since opening a device may already do something, and afterwards, since it may have changed.
    // Without waiting: a pipe would not be open before somebody writes to it.
    check(&std::fs::metadata(path).map_err(unreadable)?, max_bytes)?;
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(nonblocking).unwrap_or_default())
        .open(path)
        .map_err(unreadable)?;
    check(&file.metadata().map_err(unreadable)?, max_bytes)?;
    Ok(file)
}

fn check(found: &Metadata, max_bytes: u64) -> Result<(), String> {
    if !found.is_file() {
        let kind = if found.is_dir() { "a folder" } else { "a device, a pipe or a socket" };
        return Err(format!("is {kind}, allowed: a regular file"));
    }
    let bytes = found.len();
    if bytes > max_bytes { Err(format!("has {bytes} bytes or more, allowed: at most {max_bytes}")) } else { Ok(()) }
}
