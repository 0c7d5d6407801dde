//! Folders that are either complete or absent.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use evenkeel_host::arriving::{self, Arrival};
use evenkeel_host::{Size, private_folder};

use crate::error::{LearnerError, Result};

/// Writes a folder under another name, syncs it and renames it to `target`. Creates a missing parent.
///
/// Leftovers of a killed writer are removed. An existing folder with the final name is replaced only when the new one
/// is complete.
pub(crate) fn write_folder(target: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    StagedFolder::write(target, write)?.finish()
}

/// A folder that is complete under another name, and neither synced nor renamed. Dropped, it is removed.
pub(crate) struct StagedFolder {
    target: PathBuf,
    staging: PathBuf,
    arrival: Option<Arrival>,
}

impl StagedFolder {
    /// Writes the files, which need not be synced.
    pub(crate) fn write(target: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        let parent = parent_of(target);
        fs::create_dir_all(&parent).map_err(LearnerError::file(&parent))?;
        let staging = sibling(target, "partial");
        remove(&staging)?;
        fs::create_dir(&staging).map_err(LearnerError::file(&staging))?;
        let staged = Self { target: target.to_owned(), staging, arrival: None };
        write(&staged.staging)?;
        Ok(staged)
    }

    /// Renames the staged folder: its content has decided the name.
    pub(crate) fn renamed(mut self, target: &Path) -> Result<Self> {
        let staging = sibling(target, "partial");
        remove(&staging)?;
        fs::rename(&self.staging, &staging).map_err(LearnerError::file(&self.staging))?;
        (self.target, self.staging) = (target.to_owned(), staging);
        Ok(self)
    }

    /// Where its files are.
    pub(crate) fn place(&self) -> &Path {
        &self.staging
    }

    /// Lets readers in this process have it before it is on the disk.
    pub(crate) fn announce(&mut self) {
        self.arrival = Some(arriving::announce(&self.target, &self.staging));
    }

    /// Syncs it and gives it its name.
    pub(crate) fn finish(mut self) -> Result<()> {
        for entry in fs::read_dir(&self.staging).map_err(LearnerError::file(&self.staging))? {
            let path = entry.map_err(LearnerError::file(&self.staging))?.path();
            File::open(&path).and_then(|file| file.sync_all()).map_err(LearnerError::file(&path))?;
        }
        sync(&self.staging)?;
        let old = sibling(&self.target, "replaced");
        remove(&old)?;
        match self.arrival.take() {
            Some(arrival) => arrival.settle(|| self.rename(&old))?,
            None => self.rename(&old)?,
        }
        remove(&old)?;
        sync(&parent_of(&self.target))
    }

    fn rename(&self, old: &Path) -> Result<()> {
        if self.target.exists() {
            fs::rename(&self.target, old).map_err(LearnerError::file(&self.target))?;
        }
        fs::rename(&self.staging, &self.target).map_err(LearnerError::file(&self.staging))
    }
}

impl Drop for StagedFolder {
    fn drop(&mut self) {
        // Nobody reads it any more when it is removed. The first error is reported, whether or not the folder can be
        // removed.
        self.arrival = None;
        let _ = fs::remove_dir_all(&self.staging);
    }
}

fn parent_of(target: &Path) -> PathBuf {
    target.parent().filter(|p| !p.as_os_str().is_empty()).map_or_else(|| PathBuf::from("."), PathBuf::from)
}

/// Refuses a folder for which the disk has too little free space. What it replaces is removed only afterwards.
///
/// # Errors
/// The free space and what is needed, as an error of a full disk.
pub(crate) fn validate_free_space(target: &Path, bytes: u64) -> Result<()> {
    let space = evenkeel_host::free_space(target).map_err(LearnerError::file(target))?;
    if space.free >= bytes {
        return Ok(());
    }
    let reason = format!("needed: {}, free on the disk: {}", Size(bytes), Size(space.free));
    Err(LearnerError::file(target)(io::Error::new(ErrorKind::StorageFull, reason)))
}

/// Refuses a folder in which nothing can be created, by the setting that names it: at the start rather than at the
/// first checkpoint. What does not exist yet will be made in the nearest folder above it. A full disk is not refused:
/// space may be freed.
pub(crate) fn validate_writable(setting: &str, folder: &Path) -> Result<()> {
    let unusable = |error: io::Error| {
        LearnerError::setting(setting, folder.display(), format!("a folder that can be written to ({error})"))
    };
    let absolute = std::path::absolute(folder).map_err(unusable)?;
    let existing = absolute.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let probe = existing.join(format!(".writable-{}", std::process::id()));
    match File::options().write(true).create_new(true).open(&probe) {
        Ok(_) => fs::remove_file(&probe).map_err(unusable),
        Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::StorageFull) => Ok(()),
        Err(error) => Err(unusable(error)),
    }
}

/// Refuses a folder of published weights that exists and in which somebody else could plant or exchange something, by
/// the setting that names it: engines sample from what is in it.
pub(crate) fn validate_private(setting: &str, folder: &Path) -> Result<()> {
    match fs::symlink_metadata(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        _ => private_folder(folder).map_err(|error| {
            let allowed = format!("a folder that nobody else may write to ({error})");
            LearnerError::setting(setting, folder.display(), allowed)
        }),
    }
}

/// Makes the folder of published weights, and refuses one that somebody else has made meanwhile.
pub(crate) fn make_private(folder: &Path) -> Result<()> {
    private_folder(folder).map_err(LearnerError::file(folder))
}

/// Writes and syncs a file.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    evenkeel_host::write(path, bytes).map_err(LearnerError::file(path))
}

fn sibling(target: &Path, suffix: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(".");
    name.push(suffix);
    target.with_file_name(name)
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(LearnerError::file(folder)(error)),
        _ => Ok(()),
    }
}

/// Makes a folder's entries durable.
fn sync(folder: &Path) -> Result<()> {
    evenkeel_host::sync_folder(folder).map_err(LearnerError::file(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_weights_that_others_may_write_to_is_refused_by_its_setting() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        validate_private("weights", &folder.path().join("absent")).unwrap();
        assert!(!folder.path().join("absent").exists(), "a start that is refused leaves nothing");
        validate_private("weights", folder.path()).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let refused = validate_private("weights", folder.path()).unwrap_err().to_string();
        assert!(refused.starts_with("weights is ") && refused.contains("others may write to it"), "{refused}");
        make_private(folder.path()).unwrap_err();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("elsewhere", &link).unwrap();
        let refused = validate_private("weights", &link).unwrap_err().to_string();
        assert!(refused.contains("it is a link"), "{refused}");
    }

    #[test]
    fn a_folder_that_does_not_fit_on_the_disk_is_refused_with_readable_sizes() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("step-1");
        validate_free_space(&target, 4096).unwrap();
        let message = validate_free_space(&target, 1 << 60).unwrap_err().to_string();
        assert!(message.contains("step-1"), "{message}");
        let wanted = "needed: 1048576.0 TiB, free on the disk: ";
        assert!(message.contains(wanted), "{message}");
    }
}
