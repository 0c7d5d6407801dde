//! Folders of checkpoints and published weights, which are named after their step: `step-NUMBER`; those of adapters
//! `NUMBER-DIGEST`, so that no two adapters ever have the same name.

use std::path::{Path, PathBuf};

use crate::error::{LearnerError, Result};

const PREFIX: &str = "step-";
/// Digits of a digest in a name.
const DIGITS: usize = 12;

/// The folder of a checkpoint. Step numbers have six digits or more, so that names sort by them.
pub(crate) fn of_checkpoint(parent: &Path, step: u64) -> PathBuf {
    parent.join(format!("{PREFIX}{step:06}"))
}

/// The folder of a published version.
pub(crate) fn of_version(parent: &Path, version: u64) -> PathBuf {
    parent.join(format!("{PREFIX}{version}"))
}

/// The folder of a published adapter with this digest (`sha256:` and hex digits).
pub(crate) fn of_adapter(parent: &Path, version: u64, digest: &str) -> PathBuf {
    let digits = digest.rsplit(':').next().unwrap_or_default();
    parent.join(format!("{version}-{}", digits.get(..DIGITS).unwrap_or(digits)))
}

/// The folder of a published version under whatever name, on the disk or on its way there; the newest, should there be
/// several.
pub(crate) fn find_version(parent: &Path, version: u64) -> PathBuf {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let of_version = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let name = name.strip_prefix('.').and_then(|name| name.strip_suffix(".partial")).unwrap_or(&name);
        let path = parent.join(name);
        let written = entry.metadata().and_then(|metadata| metadata.modified()).ok()?;
        (number(&path) == Some(version)).then_some((written, path))
    });
    of_version.max().map_or_else(|| self::of_version(parent, version), |(_, path)| path)
}

/// The number that a folder is named after.
pub(crate) fn number(folder: &Path) -> Option<u64> {
    let name = folder.file_name()?.to_str()?;
    let digits = match name.strip_prefix(PREFIX) {
        Some(digits) => digits,
        None => {
            let (version, digest) = name.split_once('-')?;
            let is_hex = digest.len() == DIGITS && digest.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_hex.then_some(version)?
        }
    };
    digits.parse().ok()
}

/// The step folders in a folder with their numbers, in any order; none where it does not exist.
pub(crate) fn folders(parent: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let entries = match std::fs::read_dir(parent) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(LearnerError::file(parent))?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry.map_err(LearnerError::file(parent))?.path();
        folders.extend(number(&path).map(|number| (number, path)));
    }
    Ok(folders)
}

/// The numbers of the step folders in a folder, highest first; none where it does not exist.
pub(crate) fn numbers(parent: &Path) -> Result<Vec<u64>> {
    let mut numbers: Vec<u64> = folders(parent)?.into_iter().map(|(number, _)| number).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.dedup();
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

    #[test]
    fn an_adapter_is_found_by_its_version_under_a_name_that_no_other_has_also_before_it_has_it() {
        let parent = tempfile::tempdir().unwrap();
        let path = |digest: &str| of_adapter(parent.path(), 12, &format!("sha256:{digest}"));
        let first = path("0123456789abcdef");
        let second = path("fedcba9876543210");
        assert!(first.ends_with("12-0123456789ab") && number(&first) == Some(12));
        assert_eq!(find_version(parent.path(), 12), of_version(parent.path(), 12), "none yet");
        std::fs::create_dir(parent.path().join(".12-0123456789ab.partial")).unwrap();
        assert_eq!(find_version(parent.path(), 12), first);
        std::thread::sleep(std::time::Duration::from_millis(30));
        std::fs::create_dir(&second).unwrap();
        assert_eq!(find_version(parent.path(), 12), second);
        for other in ["12-", "12-xyz", "12-0123456789ag", "a-0123456789ab"] {
            assert_eq!(number(Path::new(other)), None, "{other}");
        }
    }
}
