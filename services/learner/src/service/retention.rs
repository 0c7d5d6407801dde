//! Removes old checkpoints and published versions. The caller decides with each request how many are kept (a run by its
//! settings `checkpoint.keep` and `checkpoint.keep_weights`); nothing else removes any.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{LearnerError, Result};
use crate::step_folder;

/// Removes all but the `keep` most recently written folders that are named after a step; absent and 0 keep all. By
/// time, not by number: after a return to an older checkpoint, folders of the repeated steps still exist and must not
/// displace the one just written. Those of the numbers `besides` stay as well and do not count.
pub(super) fn remove_old(folder: &Path, keep: Option<u32>, besides: &[u64]) -> Result<()> {
    let Some(keep) = keep.filter(|&keep| keep > 0) else { return Ok(()) };
    let mut folders = Vec::new();
    for (number, path) in step_folder::folders(folder)?.into_iter().filter(|(number, _)| !besides.contains(number)) {
        if let Ok(written) = std::fs::metadata(&path).and_then(|metadata| metadata.modified()) {
            folders.push((written, number, path));
        }
    }
    folders.sort_unstable_by(|a, b| b.cmp(a));
    for (_, _, path) in folders.into_iter().skip(keep as usize) {
        std::fs::remove_dir_all(&path).map_err(LearnerError::file(&path))?;
    }
    Ok(())
}

/// Removes the folders of the same version under other names: what was published before a return to an earlier step.
pub(super) fn remove_others(published: &Path) -> Result<()> {
    let (Some(number), Some(folder)) = (step_folder::number(published), published.parent()) else { return Ok(()) };
    for (other, path) in step_folder::folders(folder)? {
        if other == number && path.file_name() != published.file_name() {
            std::fs::remove_dir_all(&path).map_err(LearnerError::file(&path))?;
        }
    }
    Ok(())
}

/// The complete checkpoints of a run in a service's folder of checkpoints: the GRPO steps done before each, and its
/// folder.
///
/// # Errors
/// A folder that cannot be read. There are none where it does not exist.
pub fn checkpoints_of(folder: &Path, run_id: &str) -> Result<BTreeMap<u64, PathBuf>> {
    let folder = folder.join(run_id);
    let folders =
        step_folder::numbers(&folder)?.into_iter().map(|step| (step, step_folder::of_checkpoint(&folder, step)));
    Ok(folders.filter(|(_, path)| path.exists()).collect())
}

/// The published versions in a service's folder of weights, with their folders.
///
/// # Errors
/// As [`checkpoints_of`].
pub fn published_versions(folder: &Path) -> Result<BTreeMap<u64, PathBuf>> {
    Ok(step_folder::folders(folder)?.into_iter().collect())
}
