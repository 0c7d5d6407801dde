//! Names of checkpoints and published weights, and how many of them are kept.

use std::path::{Path, PathBuf};

use evenkeel_files::FileDigest;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::CheckpointRef;
use evenkeel_rpc::error::ServiceError;
use serde::{Deserialize, Serialize};

use crate::checkpoint::CLIENT_STATE;
use crate::error::{LearnerError, Result};

/// What the door puts into a checkpoint beside the learner's state: whose it is, and the caller's own state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Envelope {
    pub(super) run_id: String,
    pub(super) step: u64,
    pub(super) version: u64,
    pub(super) client_state: Vec<u8>,
}

/// The folder of a run's checkpoint after a number of GRPO steps.
pub(super) fn checkpoint_path(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("step-{step:06}"))
}

/// Steps of the checkpoints in a folder, newest first.
pub(super) fn checkpoints(folder: &Path) -> Result<Vec<u64>> {
    numbered(folder)
}

/// The run of a checkpoint, as far as it can be read.
pub(super) fn run_of(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path.join(CLIENT_STATE)).ok()?;
    serde_json::from_slice::<Envelope>(&bytes).ok().map(|envelope| envelope.run_id)
}

/// A checkpoint below `folder`, with every link and `..` resolved. Its files are its own: a link in it could lead anywhere.
pub(super) fn within(folder: &Path, path: &Path) -> std::result::Result<PathBuf, ServiceError> {
    let missing = |_| ServiceError::NotFound { what: format!("checkpoint {}", path.display()) };
    let (root, found) = (folder.canonicalize().map_err(missing)?, path.canonicalize().map_err(missing)?);
    let refused = |what: String| {
        let allowed = format!("a checkpoint below {}, without links", folder.display());
        ServiceError::from(FieldError::new("path", format_args!("`{}`{what}", path.display()), allowed))
    };
    if found == root || !found.starts_with(&root) {
        return Err(refused(String::new()));
    }
    for entry in found.read_dir().map_err(|error| refused(format!(" ({error})")))?.flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            return Err(refused(format!(", which holds {:?}", entry.file_name())));
        }
    }
    Ok(found)
}

/// Removes all but the `keep` folders named `step-NUMBER` that were written last; 0 keeps all. By time, not by number: after a
/// return to an older checkpoint the folders of the steps that are done again are still there, and must not displace
/// the one that was just written. Those that are not `own` are left alone.
pub(super) fn retain(folder: &Path, keep: u32, own: impl Fn(&Path) -> bool) -> Result<()> {
    if keep == 0 {
        return Ok(());
    }
    let mut folders = Vec::new();
    for number in numbered(folder)? {
        for name in [format!("step-{number}"), format!("step-{number:06}")] {
            let path = folder.join(name);
            if let Ok(written) = std::fs::metadata(&path).and_then(|metadata| metadata.modified())
                && own(&path)
            {
                folders.push((written, number, path));
            }
        }
    }
    folders.sort_unstable_by(|a, b| b.cmp(a));
    folders.dedup();
    for (_, _, path) in folders.into_iter().skip(keep as usize) {
        std::fs::remove_dir_all(&path).map_err(LearnerError::file(&path))?;
    }
    Ok(())
}

fn numbered(folder: &Path) -> Result<Vec<u64>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(LearnerError::file(folder))?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry.map_err(LearnerError::file(folder))?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.strip_prefix("step-")?.parse::<u64>().ok()));
    }
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    Ok(numbers)
}

/// A reference to a checkpoint that was just written or read. Its state names the digests of all else, so the
/// digest of the state is that of the whole.
pub(super) fn reference(path: &Path, envelope: &Envelope) -> Result<CheckpointRef> {
    let state = path.join("state.json");
    Ok(CheckpointRef {
        path: path.display().to_string(),
        run_id: envelope.run_id.clone(),
        step: envelope.step,
        version: envelope.version,
        digest: FileDigest::of(&state).map_err(LearnerError::file(&state))?.to_string(),
        size_bytes: size(path)?,
    })
}

pub(super) fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(LearnerError::file(folder))? {
        bytes += entry.and_then(|entry| entry.metadata()).map_err(LearnerError::file(folder))?.len();
    }
    Ok(bytes)
}
