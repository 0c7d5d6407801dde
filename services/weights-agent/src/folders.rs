//! The copies of this node: one folder for each version and digest, complete or absent under its name.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use evenkeel_host::{Size, free_space, private_folder};
use evenkeel_model_folder::{Folder, VersionMarker, folder_files_digest, weight_digests, weights_digest_of};
use evenkeel_proto::v1::WeightsDescribeResponse;
use evenkeel_rpc::error::ServiceError;
use prost::Message;
use tokio::sync::OwnedMutexGuard;

use crate::description::{Wanted, digest_of_all};

/// The file that agents of one folder lock.
const LOCK: &str = ".lock";
/// How long an agent waits before it asks again whether the other one is done.
const PAUSE: Duration = Duration::from_millis(50);
/// Digits of a digest in a name.
const DIGITS: usize = 12;

/// The folder of copies.
pub(crate) struct Folders {
    folder: PathBuf,
    keep: usize,
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Copies whose weights this process knows to be those of their marker, with the digest of all their files: a
    /// machine that lost its power may have kept less than it had written.
    verified: Mutex<BTreeMap<String, String>>,
}

/// The right to change the folder, against other calls and against other agents. Whatever still writes holds a clone.
pub(crate) struct Turn {
    _process: OwnedMutexGuard<()>,
    /// Unlocked when it is closed.
    _file: File,
}

impl Folders {
    /// Makes the folder. At most `keep` copies stay in it.
    ///
    /// # Errors
    /// A folder that cannot be made or written, or that is not private.
    pub(crate) fn open(folder: &Path, keep: usize) -> io::Result<Self> {
        let folder = std::path::absolute(folder)?;
        private_folder(&folder)?;
        File::options().append(true).create(true).open(folder.join(LOCK))?;
        Ok(Self { folder, keep, turn: Arc::default(), verified: Mutex::default() })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits for the right to change the folder.
    pub(crate) async fn turn(&self) -> Result<Arc<Turn>, ServiceError> {
        let process = Arc::clone(&self.turn).lock_owned().await;
        let path = self.folder.join(LOCK);
        let failed = |error: &io::Error| ServiceError::file(format_args!("locking {}", path.display()), error);
        let file = File::options().append(true).create(true).open(&path).map_err(|error| failed(&error))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Arc::new(Turn { _process: process, _file: file })),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
                Err(TryLockError::Error(error)) => return Err(failed(&error)),
            }
        }
    }

    /// The name of a copy: the same version may come again with other weights.
    pub(crate) fn name(version: u64, digest: &str) -> String {
        let digits = digest.trim_start_matches("sha256:");
        format!("{version}-{}", digits.get(..DIGITS).unwrap_or(digits))
    }

    /// A copy that is whole. One that is not what its marker says, or has other files than wanted, is removed.
    pub(crate) fn find(&self, wanted: &Wanted) -> Result<Option<PathBuf>, ServiceError> {
        let Wanted { version, digest, files_digest } = wanted;
        let name = Self::name(*version, digest);
        let path = self.folder.join(&name);
        let folder = Folder::new(&path);
        // What a link leads to is not this agent's.
        let is_marked = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir())
            && VersionMarker::read(&folder).is_ok_and(|marker| (marker.version, &marker.digest) == (*version, digest));
        if !is_marked {
            return Ok(None);
        }
        let known = self.verified().get(&name).cloned();
        let files = known.or_else(|| read_files_digest(&folder, digest));
        if let Some(files) = files.filter(|files| files_digest.is_empty() || files == files_digest) {
            self.verified().insert(name, files);
            return Ok(Some(path));
        }
        tracing::warn!(path = %path.display(), "a copy has other files than those wanted, and is fetched again");
        self.remove(&path)?;
        Ok(None)
    }

    /// Where a copy is made, and what for.
    pub(crate) fn partial(&self, name: &str) -> PathBuf {
        self.folder.join(format!(".{name}.partial"))
    }

    /// The newest copy with its description, to take from what has not changed.
    pub(crate) fn newest(&self) -> Option<(PathBuf, WeightsDescribeResponse)> {
        let (_, name) = self.copies().ok()?.pop()?;
        let description = fs::read(self.description(&name)).ok()?;
        Some((self.folder.join(&name), WeightsDescribeResponse::decode(&*description).ok()?))
    }

    /// Makes room for a copy of this many bytes: removes old copies and unfinished ones.
    ///
    /// # Errors
    /// A disk without room.
    pub(crate) fn make_room(&self, name: &str, bytes: u64) -> Result<(), ServiceError> {
        let failed = |error: io::Error| ServiceError::file(self.folder.display(), &error);
        for entry in fs::read_dir(&self.folder).map_err(failed)?.flatten() {
            let found = entry.file_name().to_string_lossy().into_owned();
            if found.ends_with(".partial") && self.partial(name) != entry.path() {
                self.remove(&entry.path())?;
            }
        }
        self.remove_old(self.keep - 1)?;
        let space = free_space(&self.folder).map_err(failed)?;
        if space.free >= bytes {
            return Ok(());
        }
        let path = self.folder.display();
        let needed = Size(bytes);
        let free = Size(space.free);
        Err(ServiceError::DiskFull { message: format!("{path}: needed: {needed}, free on the disk: {free}") })
    }

    /// Gives a copy that is whole its name.
    pub(crate) fn complete(&self, name: &str, description: &WeightsDescribeResponse) -> Result<PathBuf, ServiceError> {
        let path = self.folder.join(name);
        let failed = |error: io::Error| ServiceError::file(path.display(), &error);
        self.remove(&path)?;
        evenkeel_host::replace(&self.description(name), description.encode_to_vec()).map_err(failed)?;
        fs::rename(self.partial(name), &path).map_err(failed)?;
        self.verified().insert(name.to_owned(), digest_of_all(&description.files));
        self.remove_old(self.keep)?;
        Ok(path)
    }

    /// The names of copies that are whole, oldest first.
    pub(crate) fn names(&self) -> Vec<String> {
        self.copies().unwrap_or_default().into_iter().map(|(_, name)| name).collect()
    }

    fn copies(&self) -> io::Result<Vec<(SystemTime, String)>> {
        let mut copies = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // The marker says when a copy was whole; there may be other folders here, which are left alone.
            let marker = entry.path().join(VersionMarker::NAME);
            let written = fs::metadata(marker).and_then(|metadata| metadata.modified());
            if let (false, Ok(written)) = (name.starts_with('.'), written) {
                copies.push((written, name));
            }
        }
        copies.sort();
        Ok(copies)
    }

    fn remove_old(&self, keep: usize) -> Result<(), ServiceError> {
        let copies = self.copies().map_err(|error| ServiceError::file(self.folder.display(), &error))?;
        let many = copies.len().saturating_sub(keep);
        for (_, name) in copies.into_iter().take(many) {
            self.verified().remove(&name);
            self.remove(&self.folder.join(&name))?;
            let _ = fs::remove_file(self.description(&name));
        }
        Ok(())
    }

    /// Removes a folder, a link or a file, if it exists. What a link leads to stays.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), ServiceError> {
        let is_folder = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ServiceError::file(path.display(), &error)),
            _ => Ok(()),
        }
    }

    fn description(&self, name: &str) -> PathBuf {
        self.folder.join(format!(".{name}.files"))
    }

    fn verified(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The digest of all files of a copy; `None` if it does not have the weights of that digest.
fn read_files_digest(folder: &Folder, digest: &str) -> Option<String> {
    let known = weight_digests(folder).ok()?;
    let files = folder_files_digest(folder, &known).ok()?;
    (weights_digest_of(known) == digest).then_some(files)
}
