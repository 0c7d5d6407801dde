//! Whether a file is the one that the hub listed.

use std::io::Read;
use std::path::Path;

use evenkeel_host::hex;
use sha1::Digest as _;

use crate::error::HubError;
use crate::listing::{Digest, RemoteFile};

/// Compares the content of a file with the digest of the listing.
///
/// # Errors
/// Another digest, or a file that cannot be read.
pub(crate) fn verify(path: &Path, url: &str, file: &RemoteFile) -> Result<(), HubError> {
    let found = digest_of(path, &file.digest)?;
    let wanted = file.digest.hex();
    if found == wanted {
        return Ok(());
    }
    let reason = format!("the downloaded file has the digest {found}, the hub lists {wanted}");
    Err(HubError::Answer { url: HubError::url(url), reason })
}

/// The digest of a file, of the same kind as another.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn digest_of(path: &Path, kind: &Digest) -> Result<String, HubError> {
    match kind {
        Digest::Sha256(_) => digest(path, sha2::Sha256::new()),
        Digest::GitBlob(_) => {
            let size = std::fs::metadata(path).map_err(HubError::file(path))?.len();
            digest(path, sha1::Sha1::new().chain_update(format!("blob {size}\0")))
        }
    }
}

fn digest<D: sha1::Digest>(path: &Path, mut digest: D) -> Result<String, HubError> {
    let mut file = std::fs::File::open(path).map_err(HubError::file(path))?;
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer).map_err(HubError::file(path))? {
            0 => return Ok(hex(&digest.finalize())),
            count => digest.update(&buffer[..count]),
        }
    }
}
