//! The directories of runs in folders.

use std::path::{Path, PathBuf};

use evenkeel_run::RunManifest;

/// How far below a folder runs are looked for: that of a comparison has tasks, and those have runs.
const DEPTH: usize = 4;

/// Whether a directory is that of a run, or has one below it.
pub fn holds_runs(path: &Path) -> bool {
    let mut found = Vec::new();
    find(path, DEPTH, &mut found, &mut Vec::new());
    !found.is_empty()
}

/// The runs in these directories, in the order of their names, and what holds none.
pub(super) fn runs(directories: &[String]) -> (Vec<PathBuf>, Vec<String>) {
    let mut found = Vec::new();
    let mut empty = Vec::new();
    for directory in directories {
        let path = Path::new(directory);
        let before = found.len();
        find(path, DEPTH, &mut found, &mut empty);
        if found.len() == before && !empty.iter().any(|empty| empty == path) {
            empty.push(path.to_owned());
        }
    }
    let said = empty.iter().map(|path| format!("left out: {} holds no run", path.display())).collect();
    (found, said)
}

/// Adds the runs of a directory, and the outermost directories without any.
fn find(path: &Path, depth: usize, found: &mut Vec<PathBuf>, empty: &mut Vec<PathBuf>) {
    // One that is damaged is read again, which says how.
    if !matches!(RunManifest::read(path), Ok(None)) && path.is_dir() {
        found.push(path.to_owned());
        return;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_hidden = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let mut folders: Vec<PathBuf> = entries.filter(|entry| entry.is_dir() && !is_hidden(entry)).collect();
    folders.sort();
    let before = (found.len(), empty.len());
    if depth > 0 {
        folders.iter().for_each(|folder| find(folder, depth - 1, found, empty));
    }
    if found.len() == before.0 {
        empty.truncate(before.1);
        empty.push(path.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn runs_lie_at_any_depth_and_a_folder_without_one_is_named_once() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = RunManifest::new("a", "identity", None, None);
        let text = serde_json::to_string(&manifest).unwrap();
        for run in ["a", "task/b", "task/more/c"] {
            fs::create_dir_all(dir.path().join(run)).unwrap();
            fs::write(dir.path().join(run).join("run.json"), &text).unwrap();
        }
        fs::create_dir_all(dir.path().join("notes/deep/er")).unwrap();
        fs::create_dir_all(dir.path().join(".git")).unwrap();
        fs::write(dir.path().join("plan.json"), "{}").unwrap();
        let (found, said) = runs(&[dir.path().display().to_string()]);
        let names: Vec<_> = found.iter().map(|run| run.strip_prefix(dir.path()).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a", "task/b", "task/more/c"]);
        assert_eq!(said, [format!("left out: {} holds no run", dir.path().join("notes").display())]);
        assert!(holds_runs(dir.path()) && !holds_runs(&dir.path().join("notes")));
        assert!(!holds_runs(&dir.path().join("none")));
    }
}
