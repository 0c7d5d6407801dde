//! Writing one file in order, with the digest of all that was written.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use evenkeel_host::{FileDigest, FileHasher, open};

/// Bytes that are copied at a time.
const CHUNK: usize = 1 << 20;

/// A file that grows at its end.
pub(crate) struct Writer {
    file: File,
    /// Where its first byte belongs in the whole.
    base: u64,
    hasher: FileHasher,
}

impl Writer {
    /// Continues a file, whose bytes are read for their digest; begins it where it does not exist, is longer than
    /// `size`, or is no regular file.
    pub(crate) fn open(path: &Path, size: u64) -> io::Result<Self> {
        let is_usable = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() <= size);
        if !is_usable {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let file = File::options().read(true).append(true).create(true).open(path)?;
        let mut writer = Self { file, base: 0, hasher: FileHasher::default() };
        let mut buffer = vec![0; CHUNK];
        loop {
            match writer.file.read(&mut buffer)? {
                0 => return Ok(writer),
                read => writer.hasher.update(&buffer[..read]),
            }
        }
    }

    /// Begins a new file with what belongs at an offset of another.
    pub(crate) fn at(path: &Path, offset: u64) -> io::Result<Self> {
        let file = File::options().append(true).create_new(true).open(path)?;
        Ok(Self { file, base: offset, hasher: FileHasher::default() })
    }

    /// Up to where there are bytes.
    pub(crate) fn written(&self) -> u64 {
        self.base + self.hasher.bytes()
    }

    /// Adds bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        Ok(())
    }

    /// Adds bytes of another file.
    pub(crate) fn copy(&mut self, from: &Path, offset: u64, size: u64) -> io::Result<()> {
        let mut file = open(from, u64::MAX)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut left = size;
        let mut buffer = vec![0; CHUNK];
        while left > 0 {
            let chunk = &mut buffer[..usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK))];
            file.read_exact(chunk)?;
            self.write(chunk)?;
            left -= chunk.len() as u64;
        }
        Ok(())
    }

    /// The digest of the whole.
    pub(crate) fn finish(self) -> FileDigest {
        self.hasher.finish()
    }
}

/// Replaces what a file has at an offset by the content of another.
pub(crate) fn overwrite(path: &Path, offset: u64, content: &Path) -> io::Result<()> {
    let mut file = File::options().write(true).open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    io::copy(&mut open(content, u64::MAX)?, &mut file).map(drop)
}

/// The digest of a range of a file.
pub(crate) fn digest_of_range(path: &Path, offset: u64, size: u64) -> io::Result<FileDigest> {
    let mut file = open(path, u64::MAX)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut hasher = FileHasher::default();
    let mut range = file.take(size);
    let mut buffer = vec![0; CHUNK];
    loop {
        match range.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_continued_where_it_ended_also_by_another_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let other = folder.path().join("b");
        std::fs::write(&other, "0123456789").unwrap();
        let mut writer = Writer::open(&path, 9).unwrap();
        writer.write(b"abc").unwrap();
        drop(writer);
        let mut writer = Writer::open(&path, 9).unwrap();
        assert_eq!(writer.written(), 3);
        writer.copy(&other, 2, 4).unwrap();
        writer.write(b"xy").unwrap();
        assert_eq!(writer.finish(), FileDigest::of_bytes(b"abc2345xy"));
        assert_eq!(std::fs::read(&path).unwrap(), b"abc2345xy");
        assert_eq!(digest_of_range(&path, 3, 4).unwrap(), FileDigest::of_bytes(b"2345"));
        assert!(Writer::open(&path, 9).unwrap().copy(&other, 8, 4).is_err(), "beyond the end of the other file");
    }

    #[test]
    fn a_part_is_written_apart_and_takes_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let part = folder.path().join("part");
        std::fs::write(&path, "0123456789").unwrap();
        let mut writer = Writer::at(&part, 4).unwrap();
        assert_eq!(writer.written(), 4);
        writer.write(b"xyz").unwrap();
        assert_eq!(writer.written(), 7);
        overwrite(&path, 4, &part).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"0123xyz789");
    }

    #[test]
    fn what_cannot_be_the_beginning_of_the_file_is_begun_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "longer than it may be").unwrap();
        assert_eq!(Writer::open(&path, 4).unwrap().written(), 0);
        std::fs::remove_file(&path).unwrap();
        let outside = folder.path().join("outside");
        std::fs::write(&outside, "kept").unwrap();
        std::os::unix::fs::symlink(&outside, &path).unwrap();
        Writer::open(&path, 100).unwrap().write(b"new").unwrap();
        assert_eq!(std::fs::read(&outside).unwrap(), b"kept");
    }

    #[test]
    fn a_full_disk_is_an_error_of_its_kind() {
        let file = File::options().append(true).open("/dev/full").unwrap();
        let error = Writer { file, base: 0, hasher: FileHasher::default() }.write(b"a").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
