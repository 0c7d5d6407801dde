//! Folders of checkpoints, and what is stored besides the learner's state.

use std::path::{Path, PathBuf};

use candle_core::DType;
use evenkeel_host::FileDigest;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{
    CheckpointRef, LoadOperation, SaveCheckpointRequest, SaveOperation, load_checkpoint_request::Which,
};
use evenkeel_rpc::error::{Reason, ServiceError};
use serde::{Deserialize, Serialize};

use super::convert;
use super::lease::Lease;
use super::retention::{self, checkpoints_of};
use crate::checkpoint::{self, read_client_state};
use crate::error::{LearnerError, Result};
use crate::learner::Learner;
use crate::step_folder;

/// Largest state that a caller may put into a checkpoint, in bytes.
const MAX_CLIENT_STATE: usize = 1 << 20;

/// The client state of a checkpoint: the run that it belongs to, and the caller's state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    run_id: String,
    step: u64,
    version: u64,
    client_state: Vec<u8>,
}

/// A folder of checkpoints, with one folder for each run.
pub(super) struct CheckpointStore {
    folder: PathBuf,
    dtype: DType,
}

impl CheckpointStore {
    pub(super) fn new(folder: PathBuf, dtype: DType) -> Self {
        Self { folder, dtype }
    }

    /// Writes a checkpoint and removes old ones of the same run.
    pub(super) fn save(
        &self,
        learner: &Learner,
        request: SaveCheckpointRequest,
    ) -> Result<CheckpointRef, ServiceError> {
        let size = request.client_state.len();
        if size > MAX_CLIENT_STATE {
            let allowed = format!("at most {MAX_CLIENT_STATE} bytes");
            return Err(FieldError::new("client_state", format_args!("{size} bytes"), allowed).into());
        }
        let path = self.path(&request.run_id, request.step);
        let version = learner.version();
        let keep = request.keep;
        let besides = request.keep_steps;
        let envelope =
            Envelope { run_id: request.run_id, step: request.step, version, client_state: request.client_state };
        let bytes = serde_json::to_vec(&envelope).expect("numbers and strings serialise");
        learner.save_checkpoint_as(&path, &bytes, self.dtype).map_err(convert::error)?;
        retention::remove_old(&self.folder.join(&envelope.run_id), keep, &besides).map_err(convert::error)?;
        reference(&path, &envelope).map_err(convert::error)
    }

    /// Writes a checkpoint under a name of its run.
    pub(super) fn save_named(
        &self,
        learner: &Learner,
        run_id: &str,
        request: &SaveOperation,
    ) -> Result<CheckpointRef, ServiceError> {
        Lease::validate_name("save.name", &request.name)?;
        let state = &request.client_state;
        let allowed = format!("at most {MAX_CLIENT_STATE} bytes");
        let size = state.len();
        FieldError::ensure(size <= MAX_CLIENT_STATE, "save.client_state", format_args!("{size} bytes"), allowed)?;
        let path = self.named(run_id, &request.name);
        if !request.overwrite && path.exists() {
            return Err(ServiceError::AlreadyExists { what: format!("a checkpoint `{}` of this run", request.name) });
        }
        let version = learner.version();
        let envelope = Envelope { run_id: run_id.to_owned(), step: 0, version, client_state: state.clone() };
        let bytes = serde_json::to_vec(&envelope).expect("numbers and strings serialise");
        learner.save_checkpoint_as(&path, &bytes, self.dtype).map_err(convert::error)?;
        reference(&path, &envelope).map_err(convert::error)
    }

    /// Restores a checkpoint that was saved under a name, as another version.
    pub(super) fn load_named(
        &self,
        learner: &mut Learner,
        run_id: &str,
        request: &LoadOperation,
    ) -> Result<(CheckpointRef, Vec<u8>), ServiceError> {
        Lease::validate_name("load.name", &request.name)?;
        let from = if request.from_run_id.is_empty() { run_id } else { &request.from_run_id };
        Lease::validate_name("load.from_run_id", from)?;
        let path = self.resolve(&self.named(from, &request.name))?;
        let envelope = envelope_of(&path, from)?;
        learner.load(&path, request.version, request.optimizer).map_err(convert::error)?;
        Ok((reference(&path, &envelope).map_err(convert::error)?, envelope.client_state))
    }

    /// The folder of a checkpoint with a name, apart from those of steps.
    fn named(&self, run_id: &str, name: &str) -> PathBuf {
        self.folder.join(run_id).join("named").join(name)
    }

    /// Restores the requested checkpoint, or the newest complete one. Returns it with the caller's state.
    pub(super) fn load(
        &self,
        learner: &mut Learner,
        which: Option<&Which>,
        run_id: &str,
    ) -> Result<(CheckpointRef, Vec<u8>), ServiceError> {
        let candidates = match which {
            Some(Which::Step(step)) => [self.path(run_id, *step)].into_iter().filter(|path| path.exists()).collect(),
            Some(Which::Path(path)) => vec![path.into()],
            None => self.newest_first(run_id).map_err(convert::error)?,
        };
        let mut failure = self.missing(which, run_id);
        for path in candidates {
            match self.resolve(&path).and_then(|path| try_load(learner, &path, run_id)) {
                Ok(loaded) => return Ok(loaded),
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "checkpoint not loaded");
                    failure = error;
                }
            }
        }
        Err(failure)
    }

    /// The error for a checkpoint that does not exist, with those that do.
    fn missing(&self, which: Option<&Which>, run_id: &str) -> ServiceError {
        let what = match which {
            Some(Which::Step(step)) => format!("checkpoint of step {step} of run `{run_id}`"),
            _ => format!("checkpoint of run `{run_id}`"),
        };
        let steps: Vec<String> = match self.newest_first(run_id) {
            Ok(paths) => paths.iter().rev().filter_map(|path| Some(step_folder::number(path)?.to_string())).collect(),
            Err(_) => Vec::new(),
        };
        if steps.is_empty() {
            ServiceError::NotFound { what }
        } else {
            ServiceError::NotFound { what: format!("{what}, which has those of steps {}", steps.join(", ")) }
        }
    }

    /// The folder of a checkpoint. Each run has its own: steps of different runs have nothing in common.
    fn path(&self, run_id: &str, step: u64) -> PathBuf {
        step_folder::of_checkpoint(&self.folder.join(run_id), step)
    }

    fn newest_first(&self, run_id: &str) -> Result<Vec<PathBuf>> {
        Ok(checkpoints_of(&self.folder, run_id)?.into_values().rev().collect())
    }

    /// A checkpoint below the folder, with links and `..` resolved. Files in it must not be links, which could lead
    /// anywhere.
    fn resolve(&self, path: &Path) -> Result<PathBuf, ServiceError> {
        let missing = |_| ServiceError::NotFound { what: format!("checkpoint {}", path.display()) };
        let root = self.folder.canonicalize().map_err(missing)?;
        let found = path.canonicalize().map_err(missing)?;
        let refused = |what: String| {
            let allowed = format!("a checkpoint below {}, without links", self.folder.display());
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
}

/// What is stored besides the learner's state, of a checkpoint of that run.
fn envelope_of(path: &Path, run_id: &str) -> Result<Envelope, ServiceError> {
    let bytes = read_client_state(path).map_err(convert::error)?;
    let envelope: Envelope = serde_json::from_slice(&bytes)
        .map_err(|e| ServiceError::DataLoss { message: format!("checkpoint {}: {e}", path.display()) })?;
    if run_id != envelope.run_id {
        let message = format!("checkpoint {} is of run `{}`", path.display(), envelope.run_id);
        return Err(ServiceError::Precondition { reason: Reason::RunMismatch, message });
    }
    Ok(envelope)
}

fn try_load(learner: &mut Learner, path: &Path, run_id: &str) -> Result<(CheckpointRef, Vec<u8>), ServiceError> {
    let envelope = envelope_of(path, run_id)?;
    learner.restore_checkpoint(path).map_err(convert::error)?;
    let checkpoint = reference(path, &envelope).map_err(convert::error)?;
    Ok((checkpoint, envelope.client_state))
}

/// A reference to a checkpoint. The state file has the digests of all other files, so the digest of that file
/// identifies the whole.
fn reference(path: &Path, envelope: &Envelope) -> Result<CheckpointRef> {
    let state = path.join(checkpoint::STATE_FILE);
    Ok(CheckpointRef {
        path: path.display().to_string(),
        run_id: envelope.run_id.clone(),
        step: envelope.step,
        version: envelope.version,
        digest: FileDigest::of(&state).map_err(LearnerError::file(&state))?.to_string(),
        size_bytes: size(path)?,
    })
}

/// Bytes of the files of a folder.
pub(super) fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(LearnerError::file(folder))? {
        bytes += entry.and_then(|entry| entry.metadata()).map_err(LearnerError::file(folder))?.len();
    }
    Ok(bytes)
}
