//! Room on a disk.

use std::io;
use std::path::Path;

/// What a file system still takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that an ordinary process may still write.
    pub free: u64,
    /// The file system: the same for folders that share their room.
    pub id: u64,
}

/// The room where a file or folder is, or will be: that of the nearest folder above it that exists.
///
/// # Errors
/// A file system that does not answer.
pub fn free_space(path: &Path) -> io::Result<Space> {
    let path = std::path::absolute(path)?;
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let found = rustix::fs::statvfs(existing)?;
    let id = rustix::fs::stat(existing)?.st_dev;
    Ok(Space { free: found.f_bavail.saturating_mul(found.f_frsize), id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_does_not_exist_yet_has_the_room_of_the_one_above_it() {
        let folder = tempfile::tempdir().unwrap();
        let [here, below] =
            [folder.path().to_owned(), folder.path().join("a/b")].map(|path| free_space(&path).unwrap());
        assert_eq!(here.id, below.id);
        assert!(here.free > 0);
    }

    #[test]
    fn file_systems_are_distinguished() {
        let folder = tempfile::tempdir().unwrap();
        assert_ne!(free_space(Path::new("/proc")).unwrap().id, free_space(folder.path()).unwrap().id);
    }
}
