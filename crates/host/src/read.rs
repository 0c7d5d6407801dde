//! Reads files of untrusted size and kind, up to a limit.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes that are read between two checks whether the result is still wanted.
const CHUNK: u64 = 1 << 20;

/// Why a file was not read. The message continues a sentence that begins with the file's name.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// An error of the operating system.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A directory, device, pipe or socket.
    #[error("is {kind}, allowed: a regular file")]
    NotRegular {
        /// Name of its kind, with an article.
        kind: &'static str,
    },
    /// More bytes than the caller allows.
    #[error("has {bytes} bytes or more, allowed: at most {max}")]
    TooLarge {
        /// The size of the file, at least.
        bytes: u64,
        max: u64,
    },
    /// Not a line of visible ASCII characters for each secret (see [`Secret`](crate::Secret)).
    #[error("must contain one line of visible ASCII characters for each token")]
    NotSecrets,
    /// A secret that can be guessed.
    #[error("contains a token of {length} characters, allowed: {least} or more")]
    ShortSecret {
        length: usize,
        /// The shortest that is allowed.
        least: usize,
    },
    /// Nobody waits for the result any more.
    #[error("was not read to its end: reading was cancelled")]
    Cancelled,
}

impl From<ReadError> for io::Error {
    /// For callers whose errors are those of the operating system; what else is wrong is an invalid input.
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error,
            other => Self::new(ErrorKind::InvalidInput, other.to_string()),
        }
    }
}

/// Opens a regular file of at most `max_bytes`.
///
/// # Errors
/// [`ReadError::Io`], [`ReadError::NotRegular`] and [`ReadError::TooLarge`].
pub fn open(path: &Path, max_bytes: u64) -> Result<File, ReadError> {
    // Checked before opening, since opening a device may have effects, and afterwards, since the path may have changed.
    // Opened without blocking, since opening a pipe would wait for its writer.
    check(&std::fs::metadata(path)?, max_bytes)?;
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits();
    let file = OpenOptions::new().read(true).custom_flags(i32::try_from(nonblocking).unwrap_or_default()).open(path)?;
    check(&file.metadata()?, max_bytes)?;
    Ok(file)
}

/// The content of a regular file of at most `max_bytes`.
///
/// # Errors
/// As [`open`].
pub fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, ReadError> {
    read_while(path, max_bytes, || true)
}

/// Reads a file as [`read`] does; `None` if it does not exist.
///
/// # Errors
/// As [`open`].
pub fn read_optional(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, ReadError> {
    match read(path, max_bytes) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ReadError::Io(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a file as [`read`] does, and stops soon after `is_wanted` becomes false.
///
/// # Errors
/// As [`open`], and [`ReadError::Cancelled`].
pub fn read_while(path: &Path, max_bytes: u64, is_wanted: impl Fn() -> bool) -> Result<Vec<u8>, ReadError> {
    let mut file = open(path, max_bytes)?.take(max_bytes.saturating_add(1));
    let mut content = Vec::new();
    loop {
        if !is_wanted() {
            return Err(ReadError::Cancelled);
        }
        let read = file.by_ref().take(CHUNK).read_to_end(&mut content)?;
        let bytes = content.len() as u64;
        // A file may grow while it is read, and some system files do not report their size.
        if bytes > max_bytes {
            return Err(ReadError::TooLarge { bytes, max: max_bytes });
        }
        if read == 0 {
            return Ok(content);
        }
    }
}

fn check(found: &Metadata, max_bytes: u64) -> Result<(), ReadError> {
    if !found.is_file() {
        let kind = if found.is_dir() { "a directory" } else { "a device, a pipe or a socket" };
        return Err(ReadError::NotRegular { kind });
    }
    match found.len() {
        bytes if bytes > max_bytes => Err(ReadError::TooLarge { bytes, max: max_bytes }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_nothing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [Path::new("/dev/zero"), dir.path(), &pipe] {
            let error = read(path, 1 << 20).unwrap_err().to_string();
            assert!(error.ends_with("allowed: a regular file"), "{error}");
        }
    }

    #[test]
    fn a_file_is_read_up_to_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![b'x'; 3_000_000]).unwrap();
        assert_eq!(read(&path, 3_000_000).unwrap().len(), 3_000_000);
        let error = read(&path, 2_999_999).unwrap_err().to_string();
        assert!(error.ends_with("allowed: at most 2999999"), "{error}");
        // The file's metadata reports 0 bytes.
        let error = read(Path::new("/proc/self/status"), 3).unwrap_err().to_string();
        assert!(error.ends_with("allowed: at most 3"), "{error}");
    }

    #[test]
    fn a_missing_file_is_an_error_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert!(matches!(read(&path, 9), Err(ReadError::Io(_))));
        assert!(read_optional(&path, 9).unwrap().is_none());
        std::fs::write(&path, "x").unwrap();
        assert_eq!(read_optional(&path, 9).unwrap().unwrap(), b"x");
        assert!(read_optional(dir.path(), 9).is_err());
    }

    #[test]
    fn reading_ends_once_nobody_waits() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(read_while(file.path(), 100, || false), Err(ReadError::Cancelled)));
    }
}
