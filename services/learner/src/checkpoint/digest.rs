//! The length and BLAKE3 digest of a file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{LearnerError, Result};

/// What a file must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileDigest {
    pub(crate) bytes: u64,
    pub(crate) blake3: String,
}

/// Reads a file once, in pieces.
pub(crate) fn digest(path: &Path) -> Result<FileDigest> {
    let mut file = File::open(path).map_err(LearnerError::file(path))?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer).map_err(LearnerError::file(path))? {
            0 => return Ok(FileDigest { bytes, blake3: hasher.finalize().to_hex().to_string() }),
            read => {
                hasher.update(&buffer[..read]);
                bytes += read as u64;
            }
        }
    }
}
