//! The file that marks a folder of published weights as complete and names their version. It is written last.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::FolderError;
use crate::folder::Folder;

/// The content of a marker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionMarker {
    /// The version of the weights.
    pub version: u64,
    /// Digest of the weights, as [`weights_digest`](crate::weights_digest) computes it.
    pub digest: String,
}

impl VersionMarker {
    /// The name of the file.
    pub const NAME: &str = "evenkeel-version.json";

    /// Reads the marker of a folder.
    ///
    /// # Errors
    /// A folder without one, which is incomplete, or a file that is not a marker.
    pub fn read(folder: &Folder) -> Result<Self, FolderError> {
        let refused = |reason: &dyn std::fmt::Display| FolderError::file(folder.path().join(Self::NAME), reason);
        let text = folder.text(Self::NAME)?.ok_or_else(|| refused(&"is missing: the folder is incomplete"))?;
        serde_json::from_str(&text).map_err(|error| refused(&format_args!("is not a version marker: {error}")))
    }

    /// Writes the marker of a folder, after everything else. The caller syncs the folder.
    ///
    /// # Errors
    /// The operating system's.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self).expect("a number and a string serialise");
        std::fs::write(folder.join(Self::NAME), text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_read_as_it_was_written_and_its_absence_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        let error = VersionMarker::read(&folder).unwrap_err().to_string();
        assert!(error.ends_with("evenkeel-version.json: is missing: the folder is incomplete"), "{error}");
        let marker = VersionMarker { version: 7, digest: "sha256:00".into() };
        marker.write(dir.path()).unwrap();
        assert_eq!(VersionMarker::read(&folder).unwrap(), marker);
        let text = std::fs::read_to_string(dir.path().join(VersionMarker::NAME)).unwrap();
        assert_eq!(text, "{\n  \"version\": 7,\n  \"digest\": \"sha256:00\"\n}");
        std::fs::write(dir.path().join(VersionMarker::NAME), "{}").unwrap();
        assert!(VersionMarker::read(&folder).unwrap_err().to_string().contains("is not a version marker"));
    }
}
