//! The cache of huggingface_hub: `models--OWNER--NAME` with `blobs` by their digests, `snapshots` of commits as links
//! to them, and `refs`.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use evenkeel_model_folder::{Folder, WeightFiles, name};

use crate::error::HubError;
use crate::name::{ModelName, is_commit};

/// How often a lock that another process has is tried.
const POLL: Duration = Duration::from_millis(200);

/// A model's folder in the cache.
pub(crate) struct ModelCache {
    folder: PathBuf,
    locks: PathBuf,
}

impl ModelCache {
    pub(crate) fn new(cache: &Path, model: &ModelName) -> Self {
        let own = format!("models--{}", model.repository().replace('/', "--"));
        Self { folder: cache.join(&own), locks: cache.join(".locks").join(own) }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of what only this program notes about the model.
    pub(crate) fn own(&self) -> PathBuf {
        self.folder.join(".evenkeel")
    }

    /// The commit that a revision was last found to be.
    pub(crate) fn commit_of(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.to_owned());
        }
        let commit = fs::read_to_string(self.folder.join("refs").join(revision)).ok()?;
        Some(commit.trim().to_owned()).filter(|commit| is_commit(commit))
    }

    /// Notes which commit a revision is.
    pub(crate) fn note(&self, revision: &str, commit: &str) -> Result<(), HubError> {
        if is_commit(revision) {
            return Ok(());
        }
        let path = self.folder.join("refs").join(revision);
        create_parent(&path)?;
        evenkeel_host::replace(&path, commit).map_err(HubError::file(&path))
    }

    /// The folder of a commit.
    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// Where a file with this digest is.
    pub(crate) fn blob(&self, digest: &str) -> PathBuf {
        self.folder.join("blobs").join(digest)
    }

    /// Makes a file of a commit from its blob: a link, or where there are no links a copy.
    pub(crate) fn link(&self, commit: &str, file: &str, digest: &str) -> Result<(), HubError> {
        let path = self.snapshot(commit).join(file);
        let blob = self.blob(digest);
        create_parent(&path)?;
        let depth = 2 + file.matches('/').count();
        let target = Path::new(&"../".repeat(depth)).join("blobs").join(digest);
        match fs::read_link(&path) {
            Ok(found) if found == target => return Ok(()),
            Ok(_) => fs::remove_file(&path).map_err(HubError::file(&path))?,
            // A file of its own, as caches without links have them.
            Err(_)
                if fs::metadata(&path).is_ok_and(|found| {
                    fs::metadata(&blob).is_ok_and(|blob| found.is_file() && found.len() == blob.len())
                }) =>
            {
                return Ok(());
            }
            Err(_) => {}
        }
        match symlink(&target, &path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                fs::copy(&blob, &path).map(drop).map_err(HubError::file(&path))
            }
            _ => Ok(()),
        }
    }

    /// The shards that the index in the folder of a commit lists.
    pub(crate) fn shards(&self, commit: &str) -> Result<Option<BTreeSet<String>>, HubError> {
        let folder = self.snapshot(commit);
        if !folder.join(name::WEIGHTS_INDEX).is_file() {
            return Ok(None);
        }
        let files = WeightFiles::read(&Folder::new(&folder))
            .map_err(|error| HubError::Answer { url: folder.display().to_string(), reason: error.to_string() })?;
        let name = |path: PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(Some(files.paths().filter_map(name).collect()))
    }

    /// Keeps other processes from downloading the same blob: the lock that huggingface_hub takes. While another has it,
    /// its file must grow within `stall`.
    pub(crate) async fn lock(&self, digest: &str, stall: Duration) -> Result<File, HubError> {
        let path = self.locks.join(format!("{digest}.lock"));
        create_parent(&path)?;
        let file =
            File::options().create(true).truncate(false).write(true).open(&path).map_err(HubError::file(&path))?;
        let length = || fs::metadata(incomplete(&self.blob(digest))).map_or(0, |found| found.len());
        let mut seen = length();
        let mut since = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(HubError::file(&path)(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            if length() != seen {
                (seen, since) = (length(), Instant::now());
            }
            if since.elapsed() > stall {
                let reason = format!("another process has {} and makes no progress", path.display());
                return Err(HubError::Unreachable { url: self.blob(digest).display().to_string(), reason });
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Where a blob is until it is whole.
pub(crate) fn incomplete(blob: &Path) -> PathBuf {
    blob.with_extension("incomplete")
}

pub(crate) fn create_parent(path: &Path) -> Result<(), HubError> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(HubError::file(parent))
}

#[cfg(unix)]
fn symlink(target: &Path, path: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn symlink(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}
