//! Files in the guest's folder: written atomically, and used only if they match their hash.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use evenkeel_host::{FileDigest, cache_folder};

use super::GuestError;

/// `EVENKEEL_GUEST_DIR`, or `evenkeel` in the user's cache folder.
///
/// # Errors
///
/// [`GuestError::NoFolder`] if the environment defines neither.
pub fn default_folder() -> Result<PathBuf, GuestError> {
    let named = std::env::var_os("EVENKEEL_GUEST_DIR").filter(|value| !value.is_empty());
    named.map(PathBuf::from).or_else(cache_folder).ok_or(GuestError::NoFolder)
}

/// The folder that `EVENKEEL_GUEST_IMAGE` names; `None` if it is unset or empty.
pub fn image_folder() -> Option<PathBuf> {
    std::env::var_os("EVENKEEL_GUEST_IMAGE").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// A lock to be held while building, so that two processes that start together do not both build.
///
/// # Errors
///
/// A folder that cannot be created or written to.
pub fn lock(folder: &Path) -> Result<File, GuestError> {
    fs::create_dir_all(folder).map_err(GuestError::io(folder))?;
    let path = folder.join("lock");
    let file = File::options().create(true).append(true).open(&path).map_err(GuestError::io(&path))?;
    file.lock().map_err(GuestError::io(&path))?;
    Ok(file)
}

/// Whether the file exists and matches its hash.
pub fn is_whole(path: &Path) -> bool {
    match (FileDigest::of(path), fs::read_to_string(hash_path(path))) {
        (Ok(digest), Ok(recorded)) => digest.sha256 == recorded.trim(),
        _ => false,
    }
}

/// Records the hash of a finished file and moves it to its final name.
///
/// # Errors
///
/// A folder that cannot be written to.
pub fn finish(temporary: &Path, path: &Path) -> Result<(), GuestError> {
    let digest = FileDigest::of(temporary).map_err(GuestError::io(temporary))?;
    let recorded = hash_path(path);
    fs::write(&recorded, digest.sha256).map_err(GuestError::io(&recorded))?;
    fs::rename(temporary, path).map_err(GuestError::io(path))
}

fn hash_path(path: &Path) -> PathBuf {
    path.with_added_extension("sha256")
}
