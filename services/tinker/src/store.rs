//! What survives a restart: sessions, models, checkpoints and samplers, in one file that is replaced as a whole.
//! Weights are in the learner's folders.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_host::{read_optional, replace};
use evenkeel_proto::v1::{WeightsRef, weights_ref};
use serde::{Deserialize, Serialize};

/// The layout that this version writes.
const FORMAT: u32 = 1;
/// Versions of weights between two starts from other weights: more than a model ever has updates.
const VERSIONS: u64 = 1_000_000_000;
/// Sessions that have ended, and models that are gone, that are remembered.
const KEPT: usize = 1000;
const FILE: &str = "state.json";
const MAX_BYTES: u64 = 256 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Weights {
    pub(crate) version: u64,
    digest: String,
    pub(crate) path: String,
    size_bytes: u64,
}

impl Weights {
    /// Of the learner's answer; `None` where they are not in a folder.
    pub(crate) fn of(weights: WeightsRef) -> Option<Self> {
        let Some(weights_ref::Source::Path(at)) = weights.source else { return None };
        Some(Self { version: weights.version, digest: weights.digest, path: at.path, size_bytes: at.size_bytes })
    }

    /// For the generation service.
    pub(crate) fn reference(&self) -> WeightsRef {
        WeightsRef::at_path(self.version, self.digest.as_str(), self.path.as_str(), self.size_bytes)
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ClientSession {
    pub(crate) created: u64,
    pub(crate) ended: bool,
}

/// A model that a client trains or trained.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Model {
    pub(crate) session: String,
    pub(crate) created: u64,
    pub(crate) updated: u64,
    #[serde(default)]
    pub(crate) user_metadata: Option<serde_json::Value>,
    /// Why its weights are no longer in memory; absent while they are.
    pub(crate) gone: Option<String>,
}

/// What a checkpoint holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckpointKind {
    Training,
    /// Weights to sample from.
    Sampler,
}

impl CheckpointKind {
    /// Its part of a path.
    pub(crate) const fn folder(self) -> &'static str {
        match self {
            Self::Training => "weights",
            Self::Sampler => "sampler_weights",
        }
    }
}

/// A checkpoint, by its `tinker://` path.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    pub(crate) model: String,
    pub(crate) name: String,
    pub(crate) kind: CheckpointKind,
    pub(crate) created: u64,
    /// Unix seconds.
    pub(crate) expires: Option<u64>,
    #[serde(default)]
    pub(crate) user_metadata: Option<serde_json::Value>,
    /// Of `Training`: the run in the learner's folder of checkpoints, and the folder.
    pub(crate) run_id: String,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) size_bytes: u64,
    /// Of `Sampler`.
    pub(crate) weights: Option<Weights>,
}

impl Checkpoint {
    pub(crate) fn is_expired(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= now())
    }
}

/// What a sampling session samples from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sampler {
    pub(crate) session: String,
    /// The path that it was asked for by.
    pub(crate) path: Option<String>,
    /// Absent: the base model.
    pub(crate) weights: Option<Weights>,
    pub(crate) created: u64,
    /// Whether its weights have no name, and are removed with it.
    pub(crate) is_ephemeral: bool,
}

/// The model whose weights were in memory when the server stopped, and are saved.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Live {
    pub(crate) model: String,
    pub(crate) run_id: String,
    pub(crate) name: String,
    /// Removed once it is loaded.
    pub(crate) folder: Option<PathBuf>,
    /// The number of the last operation that was done.
    pub(crate) done: u64,
    /// Whether something was accumulated and not applied, which is not saved.
    pub(crate) has_sum: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StoredState {
    format: u32,
    /// How often weights were begun or loaded.
    lives: u64,
    pub(crate) sessions: BTreeMap<String, ClientSession>,
    pub(crate) models: BTreeMap<String, Model>,
    pub(crate) checkpoints: BTreeMap<String, Checkpoint>,
    pub(crate) samplers: BTreeMap<String, Sampler>,
    /// The base model, as an adapter that does nothing.
    pub(crate) base: Option<Weights>,
    pub(crate) live: Option<Live>,
}

impl StoredState {
    /// A version that no weights ever had, with room for updates.
    pub(crate) fn fresh_version(&mut self) -> u64 {
        self.lives += 1;
        self.lives * VERSIONS
    }

    /// Forgets the oldest sessions that have ended, and models that are gone and have no checkpoint, beyond the newest
    /// that are kept.
    pub(crate) fn prune(&mut self) {
        let ended = self.sessions.iter().filter(|(_, session)| session.ended);
        for id in oldest(ended.map(|(id, session)| (session.created, id.clone())).collect()) {
            self.sessions.remove(&id);
        }
        let has_checkpoint = |id: &str| self.checkpoints.values().any(|checkpoint| checkpoint.model == id);
        let gone = self.models.iter().filter(|(id, model)| model.gone.is_some() && !has_checkpoint(id));
        for id in oldest(gone.map(|(id, model)| (model.created, id.clone())).collect()) {
            self.models.remove(&id);
        }
        let sessions = &self.sessions;
        self.samplers.retain(|_, sampler| sessions.contains_key(&sampler.session));
    }

    /// Those weights that nothing refers to any more.
    pub(crate) fn unused(&self, weights: Vec<Weights>) -> Vec<Weights> {
        let of_samplers = self.samplers.values().filter_map(|sampler| sampler.weights.as_ref());
        let of_checkpoints = self.checkpoints.values().filter_map(|checkpoint| checkpoint.weights.as_ref());
        let used: BTreeSet<u64> =
            of_samplers.chain(of_checkpoints).chain(&self.base).map(|weights| weights.version).collect();
        weights.into_iter().filter(|weights| !used.contains(&weights.version)).collect()
    }

    /// Reads the folder; empty where there is nothing yet.
    ///
    /// # Errors
    /// A file that cannot be read, or is of a later version.
    pub(crate) fn read(folder: &Path) -> io::Result<Self> {
        let path = folder.join(FILE);
        let refused =
            |error: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()));
        let Some(bytes) = read_optional(&path, MAX_BYTES).map_err(|error| refused(error.to_string()))? else {
            return Ok(Self { format: FORMAT, ..Self::default() });
        };
        let state: Self = serde_json::from_slice(&bytes).map_err(|error| refused(error.to_string()))?;
        match state.format {
            FORMAT => Ok(state),
            other => Err(refused(format!("format is {other}, allowed: {FORMAT}"))),
        }
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        replace(&folder.join(FILE), serde_json::to_vec(self).expect("texts and numbers serialise"))
    }
}

/// Removes the folders of weights.
pub(crate) fn remove_folders(weights: &[Weights]) {
    for Weights { path, .. } in weights {
        if let Err(error) = std::fs::remove_dir_all(path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path, %error, "weights are not removed");
        }
    }
}

/// All but the newest that are kept.
fn oldest(mut all: Vec<(u64, String)>) -> Vec<String> {
    all.sort_unstable();
    all.truncate(all.len().saturating_sub(KEPT));
    all.into_iter().map(|(_, id)| id).collect()
}

/// Unix seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
