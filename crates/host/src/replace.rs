//! Replacing a file as a whole.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file atomically: a reader finds the old content or the new one, also after a power failure.
///
/// # Errors
/// Those of the operating system; the file is then the old one.
pub fn replace(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    replace_with(path, |file| file.write_all(content.as_ref()))
}

/// Replaces a file by what `write` writes, as [`replace`] does.
///
/// # Errors
/// Errors of `write` and of the operating system; the file is then the old one, and what was written next to it is
/// gone.
pub fn replace_with(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let temporary = path.with_extension("writing");
    // A link that somebody planted under this name is removed, and never written through.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::create_new(&temporary)?;
    let written = write(&mut file).and_then(|()| file.sync_all());
    drop(file);
    let replaced = written.and_then(|()| std::fs::rename(&temporary, path));
    if replaced.is_err() {
        // A part of a file would take up a disk that is already full. The first error is the one to report.
        let _ = std::fs::remove_file(&temporary);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        replace(&path, "old").unwrap();
        let broken = replace_with(&path, |file| {
            file.write_all(b"ne")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(broken.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no part of the new file");
        replace(&path, "new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_planted_link_is_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::write(&outside, "kept").unwrap();
        let path = dir.path().join("a.json");
        std::os::unix::fs::symlink(&outside, path.with_extension("writing")).unwrap();
        replace(&path, "new").unwrap();
        assert_eq!(std::fs::read(&outside).unwrap(), b"kept");
        assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }
}
