//! Writing what has to survive a power failure.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Writes a file and syncs it. The folder has to be synced as well: [`sync_folder`].
///
/// # Errors
/// Errors of the operating system; a part of the file may then exist.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content.as_ref())?;
    file.sync_all()
}

/// Syncs the entries of a folder: which files it has, and under which names.
///
/// # Errors
/// Those of the operating system.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_what_was_written_and_nothing_of_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write(&path, "longer").unwrap();
        write(&path, "new").unwrap();
        sync_folder(dir.path()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(sync_folder(&dir.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
