//! Whether a file is the one that was there before, without reading it.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// What a file system says of a file that another content would change: where it is, its length and its times. The time
/// of its last change of status is among them, which no program can set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileStamp {
    pub device: u64,
    /// The file within it.
    pub inode: u64,
    pub bytes: u64,
    /// When its content was last written, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// When its content, owner, links or times were last changed, in nanoseconds since 1970.
    pub changed_ns: i128,
}

impl FileStamp {
    /// The stamp of what a path leads to.
    ///
    /// # Errors
    /// A path that leads nowhere.
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self::from(&std::fs::metadata(path)?))
    }

    /// The stamp of an open file or folder, wherever it has been moved to.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn of_open(file: &File) -> io::Result<Self> {
        Ok(Self::from(&file.metadata()?))
    }

    /// Whether both are of one file or folder, be its content another.
    pub fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

impl From<&Metadata> for FileStamp {
    fn from(data: &Metadata) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            device: data.dev(),
            inode: data.ino(),
            bytes: data.len(),
            modified_ns: nanoseconds(data.mtime(), data.mtime_nsec()),
            changed_ns: nanoseconds(data.ctime(), data.ctime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;

    use super::*;

    #[test]
    fn a_file_that_was_changed_or_replaced_has_another_stamp_also_with_its_times_set_back() {
        let dir = tempfile::tempdir().unwrap();
        let [path, other] = ["a", "b"].map(|name| dir.path().join(name));
        std::fs::write(&path, "1").unwrap();
        let before = FileStamp::of(&path).unwrap();
        let times = std::fs::metadata(&path).unwrap();
        assert_eq!(FileStamp::of(&path).unwrap(), before);
        let set_back = |path: &Path| {
            let times = FileTimes::new().set_modified(times.modified().unwrap());
            File::options().write(true).open(path).unwrap().set_times(times).unwrap();
        };
        // The clock of a file system may tick in hundredths of a second.
        std::thread::sleep(std::time::Duration::from_millis(30));
        std::fs::write(&path, "2").unwrap();
        set_back(&path);
        let changed = FileStamp::of(&path).unwrap();
        assert_eq!((changed.modified_ns, changed.bytes), (before.modified_ns, before.bytes));
        assert!(changed != before && changed.is_same_file(&before));
        std::fs::write(&other, "1").unwrap();
        set_back(&other);
        let open = File::open(&path).unwrap();
        std::fs::rename(&other, &path).unwrap();
        let replaced = FileStamp::of(&path).unwrap();
        assert!(!replaced.is_same_file(&before) && FileStamp::of_open(&open).unwrap().is_same_file(&before));
    }
}
