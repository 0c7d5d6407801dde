//! Folders of checkpoints and published weights, which are named after their step: `step-NUMBER`.

use std::path::{Path, PathBuf};

use crate::error::{LearnerError, Result};

const PREFIX: &str = "step-";

/// The folder of a checkpoint. Its number has six digits or more, so that names sort by it.
pub(crate) fn of_checkpoint(parent: &Path, step: u64) -> PathBuf {
    parent.join(format!("{PREFIX}{step:06}"))
}

/// The folder of a published version.
pub(crate) fn of_version(parent: &Path, version: u64) -> PathBuf {
    parent.join(format!("{PREFIX}{version}"))
}

/// The number that a folder is named after.
pub(crate) fn number(folder: &Path) -> Option<u64> {
    folder.file_name()?.to_str()?.strip_prefix(PREFIX)?.parse().ok()
}

/// The numbers of the step folders in a folder, highest first; none where it does not exist.
pub(crate) fn numbers(parent: &Path) -> Result<Vec<u64>> {
    let entries = match std::fs::read_dir(parent) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(LearnerError::file(parent))?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        numbers.extend(number(&entry.map_err(LearnerError::file(parent))?.path()));
    }
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_folders_have_their_names_and_are_found_by_number() {
        let parent = tempfile::tempdir().unwrap();
        let folders =
            [of_checkpoint(parent.path(), 7), of_version(parent.path(), 12), parent.path().join(".step-9.partial")];
        for folder in &folders {
            std::fs::create_dir(folder).unwrap();
        }
        assert!(folders[0].ends_with("step-000007") && folders[1].ends_with("step-12"));
        assert_eq!(folders.each_ref().map(|folder| number(folder)), [Some(7), Some(12), None]);
        assert_eq!(numbers(parent.path()).unwrap(), [12, 7]);
        assert_eq!(numbers(&parent.path().join("none")).unwrap(), [0; 0]);
    }
}
