//! Files in the guest's folder: written whole or not at all, trusted only with their hash.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::GuestError;
use super::sources::hex;

/// `EVENKEEL_GUEST_DIR`, or `evenkeel` in the user's cache folder.
///
/// # Errors
///
/// [`GuestError::NoFolder`] where the environment names neither.
pub fn default_folder() -> Result<PathBuf, GuestError> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("EVENKEEL_GUEST_DIR")
        .or_else(|| named("XDG_CACHE_HOME").map(|cache| cache.join("evenkeel")))
        .or_else(|| named("HOME").map(|home| home.join(".cache").join("evenkeel")))
        .ok_or(GuestError::NoFolder)
}

/// `EVENKEEL_GUEST_IMAGE`, where it is set.
pub fn image_folder() -> Option<PathBuf> {
    std::env::var_os("EVENKEEL_GUEST_IMAGE").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Held while something is made, so that two processes that begin together do not both make it.
///
/// # Errors
///
/// A folder that cannot be made or written to.
pub fn lock(folder: &Path) -> Result<File, GuestError> {
    fs::create_dir_all(folder).map_err(GuestError::io(folder))?;
    let path = folder.join("lock");
    let file = File::options().create(true).append(true).open(&path).map_err(GuestError::io(&path))?;
    file.lock().map_err(GuestError::io(&path))?;
    Ok(file)
}

/// Whether the file exists and is what was written.
pub fn is_whole(path: &Path) -> bool {
    match (sha256(path), fs::read_to_string(hash_path(path))) {
        (Ok(hash), Ok(noted)) => hash == noted.trim(),
        _ => false,
    }
}

/// Moves a finished file to its name and notes its hash.
///
/// # Errors
///
/// A folder that cannot be written to.
pub fn finish(temporary: &Path, path: &Path) -> Result<(), GuestError> {
    let hash = sha256(temporary).map_err(GuestError::io(temporary))?;
    let noted = hash_path(path);
    fs::write(&noted, hash).map_err(GuestError::io(&noted))?;
    fs::rename(temporary, path).map_err(GuestError::io(path))
}

/// SHA-256 of a file's content.
fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            length => hash.update(&buffer[..length]),
        }
    }
}

fn hash_path(path: &Path) -> PathBuf {
    path.with_added_extension("sha256")
}
