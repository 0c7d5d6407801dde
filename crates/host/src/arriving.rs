//! Folders that are whole and on their way to the disk: parts of the same process may read them before they have their
//! names.
//!
//! A folder that is written under another name, synced and renamed is complete or absent whatever happens, and a reader
//! that waits for it waits for the disk. A reader in the same process need not: it is told where the files are
//! meanwhile, and reads them from the page cache.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock};

/// Where each folder is until it has its name.
static PLACES: RwLock<BTreeMap<PathBuf, PathBuf>> = RwLock::new(BTreeMap::new());
/// How many there are, for those who wait until there is none.
static COUNT: Mutex<usize> = Mutex::new(0);
static ARRIVED: Condvar = Condvar::new();

/// A folder on its way. Dropped, it is no longer announced.
#[derive(Debug)]
pub struct Arrival(PathBuf);

/// Announces that `folder` will have the files that are in `place` now.
pub fn announce(folder: &Path, place: &Path) -> Arrival {
    let folder = absolute(folder);
    let mut places = PLACES.write().unwrap_or_else(PoisonError::into_inner);
    places.insert(folder.clone(), absolute(place));
    *count() += 1;
    Arrival(folder)
}

/// Reads a folder, in the place where its files are. Until `read` returns they stay there.
pub fn read_in_place<T>(folder: &Path, read: impl FnOnce(&Path) -> T) -> T {
    let places = PLACES.read().unwrap_or_else(PoisonError::into_inner);
    match places.get(&absolute(folder)) {
        Some(place) => read(place),
        None => {
            drop(places);
            read(folder)
        }
    }
}

/// Waits until every announced folder has its name, or is given up.
pub fn wait_for_all() {
    let mut left = count();
    while *left > 0 {
        left = ARRIVED.wait(left).unwrap_or_else(PoisonError::into_inner);
    }
}

impl Arrival {
    /// Gives the folder its name by `rename`, between readers.
    pub fn settle<T>(self, rename: impl FnOnce() -> T) -> T {
        let mut places = PLACES.write().unwrap_or_else(PoisonError::into_inner);
        let renamed = rename();
        places.remove(&self.0);
        renamed
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        PLACES.write().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
        *count() -= 1;
        ARRIVED.notify_all();
    }
}

fn count() -> MutexGuard<'static, usize> {
    COUNT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_where_its_files_are_until_it_has_its_name() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("step-1");
        let place = parent.path().join(".step-1.partial");
        std::fs::create_dir(&place).unwrap();
        std::fs::write(place.join("a"), "whole").unwrap();
        let read = || read_in_place(&folder, |path| std::fs::read_to_string(path.join("a")).ok());
        assert_eq!(read(), None);
        let arrival = announce(&folder, &place);
        assert_eq!(read().as_deref(), Some("whole"));
        assert!(!folder.exists());
        arrival.settle(|| std::fs::rename(&place, &folder)).unwrap();
        assert_eq!(read().as_deref(), Some("whole"));
        assert!(folder.exists() && !place.exists());
    }

    #[test]
    fn a_name_is_not_given_while_someone_reads_and_a_folder_that_is_given_up_is_not_read() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("step-2");
        let place = parent.path().join(".step-2.partial");
        std::fs::create_dir(&place).unwrap();
        let arrival = announce(&folder, &place);
        std::thread::scope(|scope| {
            let (begun, waits) = std::sync::mpsc::channel();
            let (renamed, is_renamed) = std::sync::mpsc::channel();
            let folder = &folder;
            let place = &place;
            scope.spawn(move || {
                read_in_place(folder, |path| {
                    begun.send(()).unwrap();
                    // Renaming waits for this reader.
                    assert!(is_renamed.recv_timeout(std::time::Duration::from_millis(50)).is_err());
                    assert!(path.exists());
                });
            });
            waits.recv().unwrap();
            arrival.settle(|| std::fs::rename(place, folder).unwrap());
            // The reader may be gone.
            let _ = renamed.send(());
        });
        drop(announce(&parent.path().join("step-3"), &folder));
        assert!(read_in_place(&parent.path().join("step-3"), |path| path.ends_with("step-3")));
    }
}
