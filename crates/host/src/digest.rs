//! SHA-256 digests of files and texts.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{hex, open};

/// The digest of some bytes in the protocol's format: `sha256:` and 64 lower-case hex digits.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    named(&hex(&Sha256::digest(bytes)))
}

/// A SHA-256 digest in the protocol's format, from its hex digits.
pub(crate) fn named(hex: &str) -> String {
    format!("sha256:{hex}")
}

/// Length and digest of a file. Displayed in the protocol's format: `sha256:` and 64 lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileDigest {
    pub bytes: u64,
    /// The 64 hex digits without a prefix.
    pub sha256: String,
}

impl FileDigest {
    /// The digest of a file with this content.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self { bytes: bytes.len() as u64, sha256: hex(&Sha256::digest(bytes)) }
    }

    /// Reads a regular file once, in chunks.
    ///
    /// # Errors
    /// A file that cannot be opened or read; a directory, device, pipe or socket, which would block.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut hash = Sha256::new();
        let bytes = io::copy(&mut open(path, u64::MAX)?, &mut hash)?;
        Ok(Self { bytes, sha256: hex(&hash.finalize()) })
    }
}

/// The digest of bytes that come one after the other.
#[derive(Clone, Default)]
pub struct FileHasher {
    hash: Sha256,
    bytes: u64,
}

impl FileHasher {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// How many there were.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The digest of all.
    pub fn finish(self) -> FileDigest {
        FileDigest { bytes: self.bytes, sha256: hex(&self.hash.finalize()) }
    }
}

/// A writer that makes the digest of what goes through it, so that nothing is read again.
pub struct DigestWriter<W> {
    to: W,
    hasher: FileHasher,
}

impl<W: Write> DigestWriter<W> {
    /// Hands everything on to `to`.
    pub fn new(to: W) -> Self {
        Self { to, hasher: FileHasher::default() }
    }

    /// The writer, and the digest of what it was given.
    pub fn finish(self) -> (W, FileDigest) {
        (self.to, self.hasher.finish())
    }
}

impl<W: Write> Write for DigestWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl fmt::Display for FileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&named(&self.sha256))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_files_have_the_digests_of_fips_180() {
        let digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256("abc"), digest);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let found = FileDigest::of(file.path()).unwrap();
        assert_eq!((found.to_string().as_str(), found.bytes), (digest, 3));
        assert_eq!(FileDigest::of_bytes(b"abc"), found);
        std::fs::write(file.path(), vec![0; 1_000_001]).unwrap();
        let found = FileDigest::of(file.path()).unwrap();
        assert_eq!((found.to_string(), found.bytes), (sha256(vec![0; 1_000_001]), 1_000_001));
    }

    #[test]
    fn a_pipe_has_no_digest_and_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&pipe, dir.path()] {
            let error = FileDigest::of(path).unwrap_err().to_string();
            assert!(error.ends_with("allowed: a regular file"), "{error}");
        }
    }

    /// Takes three bytes at most.
    struct Slow(Vec<u8>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(&bytes[..bytes.len().min(3)])
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_written_has_the_digest_of_what_arrived() {
        let mut writer = DigestWriter::new(Slow(Vec::new()));
        for part in [&b"a"[..], b"", b"longer part", b"c"] {
            writer.write_all(part).unwrap();
        }
        let (slow, digest) = writer.finish();
        assert_eq!(slow.0, b"alonger partc");
        assert_eq!(digest, FileDigest::of_bytes(&slow.0));
    }
}
