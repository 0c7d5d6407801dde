//! Whether a folder can be written.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Whether a folder can be made at a path, or written where it exists. Nothing is written: a disk that is full is not
/// noticed.
///
/// # Errors
/// Why not, with the folder above it that stands in the way: one of another user, a file system that is mounted for
/// reading only, no folder at all.
pub fn check_writable(path: &Path) -> Result<(), (PathBuf, io::Error)> {
    let absolute = std::path::absolute(path).map_err(|error| (path.to_owned(), error))?;
    // A link that leads nowhere is in the way of a folder of its name.
    let exists = |path: &&Path| std::fs::symlink_metadata(path).is_ok();
    let existing = absolute.ancestors().find(exists).unwrap_or(Path::new("/"));
    let refused = |error: io::Error| (existing.to_owned(), error);
    if !std::fs::metadata(existing).map_err(refused)?.is_dir() {
        return Err(refused(io::ErrorKind::NotADirectory.into()));
    }
    access(existing, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| refused(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_below_one_that_can_be_written() {
        let dir = tempfile::tempdir().unwrap();
        check_writable(dir.path()).unwrap();
        check_writable(&dir.path().join("a/b")).unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let (at, error) = check_writable(&file.join("a")).unwrap_err();
        assert_eq!((at, error.kind()), (file, io::ErrorKind::NotADirectory));
        // Nobody can make a folder there, not even the superuser, whom permissions do not bind.
        #[cfg(target_os = "linux")]
        {
            let read_only = std::fs::read_to_string("/proc/mounts").unwrap();
            let mounted = read_only.lines().filter_map(|line| {
                let mut words = line.split(' ').skip(1);
                let at = words.next()?;
                let options = words.nth(1)?;
                (options.split(',').any(|option| option == "ro") && Path::new(at).is_dir()).then_some(at)
            });
            for at in mounted.take(1) {
                let (_, error) = check_writable(&Path::new(at).join("run")).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
            }
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_is_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert_eq!(check_writable(&link).unwrap_err().0, link);
    }
}
