//! Directories of runs without `--out`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// `NAME` in a folder, or the first of `NAME-2`, `NAME-3`, ... that does not exist.
pub(crate) fn free_directory(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = |number: u32| match number {
        1 => folder.join(name),
        _ => folder.join(format!("{name}-{number}")),
    };
    match (1..10_000).map(path).find(|path| !path.exists()) {
        Some(path) => Ok(path),
        None => bail!("{} has 9999 runs of {name}: name another folder with --out", folder.display()),
    }
}
