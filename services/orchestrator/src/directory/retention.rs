//! Old checkpoints and weights go; what a run still needs stays.

use std::path::Path;

use crate::error::RunError;

/// Removes the `step-N` folders beside `newest` that are older than the `keep` newest ones; 0 keeps all. `newest` is a folder of that
/// name which is whole; folders with a higher number (of steps that will be done again) stay. Only folders within `root` are
/// touched: what another machine wrote is its own to clear. Returns how many were removed.
///
/// # Errors
/// A folder that cannot be read or removed.
pub fn retain(root: &Path, newest: &Path, keep: usize) -> Result<usize, RunError> {
    let (Ok(newest), Ok(root)) = (std::fs::canonicalize(newest), std::fs::canonicalize(root)) else { return Ok(0) };
    let (Some(number), Some(folder)) = (number_of(&newest), newest.parent()) else { return Ok(0) };
    if keep == 0 || !newest.starts_with(&root) || folder == root {
        return Ok(0);
    }
    let mut older = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(RunError::file(folder))? {
        let path = entry.map_err(RunError::file(folder))?.path();
        if let Some(other) = number_of(&path).filter(|other| *other < number && path.is_dir()) {
            older.push((other, path));
        }
    }
    older.sort();
    let remove = older.len().saturating_sub(keep - 1);
    for (_, path) in &older[..remove] {
        std::fs::remove_dir_all(path).map_err(RunError::file(path))?;
    }
    Ok(remove)
}

fn number_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("step-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_newest_stay_and_strangers_too() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("weights");
        for name in ["step-1", "step-2", "step-9", "step-10", "step-12", "notes", "step-x"] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
        }
        assert_eq!(retain(root.path(), &folder.join("step-10"), 2).unwrap(), 2);
        assert_eq!(names(&folder), ["notes", "step-10", "step-12", "step-9", "step-x"]);
        assert_eq!(retain(root.path(), &folder.join("step-10"), 0).unwrap(), 0);
        assert_eq!(retain(&folder.join("notes"), &folder.join("step-12"), 1).unwrap(), 0, "outside of the root");
        assert_eq!(retain(root.path(), &folder.join("step-77"), 1).unwrap(), 0, "a folder that is not there");
    }
}
