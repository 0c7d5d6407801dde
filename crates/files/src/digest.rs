//! SHA-256 digests.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The digest of some bytes in the protocol's format: `sha256:` and 64 lower-case hex digits.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    format!("sha256:{:x}", Sha256::digest(bytes))
}

/// Length and digest of a file. Displayed in the protocol's format: `sha256:` and 64 lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileDigest {
    /// Its length.
    pub bytes: u64,
    /// The 64 hex digits without a prefix.
    pub sha256: String,
}

impl FileDigest {
    /// Reads a file once, in chunks.
    ///
    /// # Errors
    /// A file that cannot be opened or read.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut hash = Sha256::new();
        let bytes = io::copy(&mut File::open(path)?, &mut hash)?;
        Ok(Self { bytes, sha256: format!("{:x}", hash.finalize()) })
    }
}

impl fmt::Display for FileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.sha256)
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
        std::fs::write(file.path(), vec![0; 1_000_001]).unwrap();
        let found = FileDigest::of(file.path()).unwrap();
        assert_eq!((found.to_string(), found.bytes), (sha256(vec![0; 1_000_001]), 1_000_001));
    }
}
