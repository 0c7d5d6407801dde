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
/// Sampling sessions, of all sessions together.
const MAX_SAMPLERS: usize = 10_000;
const FILE: &str = "state.json";
const MAX_BYTES: u64 = 256 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Weights {
    pub(crate) version: u64,
    digest: String,
    /// Digest of all files of the folder; empty: unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    files_digest: String,
    pub(crate) path: String,
    size_bytes: u64,
}

impl Weights {
    /// From the learner's answer; `None` where the weights are not in a folder.
    pub(crate) fn of(weights: WeightsRef) -> Option<Self> {
        let Some(weights_ref::Source::Path(at)) = weights.source.clone() else { return None };
        let WeightsRef { version, digest, files_digest, .. } = weights;
        Some(Self { version, digest, files_digest, path: at.path, size_bytes: at.size_bytes })
    }

    /// For the generation service.
    pub(crate) fn reference(&self) -> WeightsRef {
        WeightsRef::at_path(self.version, self.digest.as_str(), self.path.as_str(), self.size_bytes)
            .with_files_digest(self.files_digest.as_str())
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
    /// Name of the kind in paths.
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
    /// When the checkpoint expires, in Unix seconds.
    pub(crate) expires: Option<u64>,
    #[serde(default)]
    pub(crate) user_metadata: Option<serde_json::Value>,
    /// For `Training`: the run in the learner's folder of checkpoints, and the folder.
    pub(crate) run_id: String,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) size_bytes: u64,
    /// For `Sampler`: the weights.
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
    }

    /// Forgets samplers that nobody may use any more: those of sessions that are forgotten; those whose weights have no
    /// name (any more) when their session has ended, and the oldest of these beyond `keep` while it lasts; the oldest
    /// of all beyond what is kept. Returns the weights that nothing refers to then, of samplers and of `dropped`.
    pub(crate) fn tidy(&mut self, keep: usize, dropped: Option<Weights>) -> Vec<Weights> {
        let named = self.named();
        let mut nameless: BTreeMap<&str, Vec<(u64, &String)>> = BTreeMap::new();
        let mut forgotten: Vec<String> = Vec::new();
        for (id, sampler) in &self.samplers {
            let session = self.sessions.get(&sampler.session);
            let version = sampler.weights.as_ref().map(|weights| weights.version);
            match (session, version.filter(|version| !named.contains(version))) {
                (None, _) | (Some(ClientSession { ended: true, .. }), Some(_)) => forgotten.push(id.clone()),
                (Some(_), Some(version)) => nameless.entry(&sampler.session).or_default().push((version, id)),
                (Some(_), None) => {}
            }
        }
        for mut of_session in nameless.into_values() {
            of_session.sort_unstable();
            let beyond = of_session.len().saturating_sub(keep);
            forgotten.extend(of_session.into_iter().take(beyond).map(|(_, id)| id.clone()));
        }
        let mut removed: Vec<Weights> = dropped.into_iter().collect();
        removed.extend(forgotten.iter().filter_map(|id| self.samplers.remove(id)?.weights));
        while self.samplers.len() > MAX_SAMPLERS {
            let oldest = self.samplers.iter().min_by_key(|(_, sampler)| sampler.created).map(|(id, _)| id.clone());
            removed.extend(oldest.and_then(|id| self.samplers.remove(&id)?.weights));
        }
        // A checkpoint and its samplers have the same weights.
        removed.sort_by_key(|weights| weights.version);
        removed.dedup_by_key(|weights| weights.version);
        let used = self.used();
        removed.into_iter().filter(|weights| !used.contains(&weights.version)).collect()
    }

    /// The versions of weights that something refers to.
    pub(crate) fn used(&self) -> BTreeSet<u64> {
        let of_samplers = self.samplers.values().filter_map(|sampler| Some(sampler.weights.as_ref()?.version));
        self.named().into_iter().chain(of_samplers).collect()
    }

    /// The versions of weights that have a name: those of checkpoints, and of the base model.
    fn named(&self) -> BTreeSet<u64> {
        let of_checkpoints = self.checkpoints.values().filter_map(|checkpoint| checkpoint.weights.as_ref());
        of_checkpoints.chain(&self.base).map(|weights| weights.version).collect()
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

    /// The content of the file.
    pub(crate) fn content(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers serialise")
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// The operating system's, or more than [`read`](Self::read) would take.
    pub(crate) fn write(folder: &Path, content: Vec<u8>) -> io::Result<()> {
        Self::write_up_to(folder, content, MAX_BYTES)
    }

    fn write_up_to(folder: &Path, content: Vec<u8>, max: u64) -> io::Result<()> {
        let bytes = content.len() as u64;
        if bytes > max {
            let message = format!("{FILE} would have {bytes} bytes, allowed: at most {max} (delete checkpoints)");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        replace(&folder.join(FILE), content)
    }
}

/// Removes the folders of weights.
pub(crate) fn remove_folders(weights: &[Weights]) {
    weights.iter().for_each(|weights| remove_folder(Path::new(&weights.path)));
}

/// Removes a folder of weights or of a checkpoint.
pub(crate) fn remove_folder(path: &Path) {
    if let Err(error) = std::fs::remove_dir_all(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a folder of weights is not removed");
    }
}

/// All but the newest that are kept.
fn oldest(mut all: Vec<(u64, String)>) -> Vec<String> {
    all.sort_unstable();
    all.truncate(all.len().saturating_sub(KEPT));
    all.into_iter().map(|(_, id)| id).collect()
}

/// Unix time now, in seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(version: u64) -> Weights {
        let path = format!("/weights/{version}");
        Weights { version, digest: String::new(), files_digest: String::new(), path, size_bytes: 1 }
    }

    /// A state with an open session `a`, whose samplers have these weights.
    fn state(samplers: &[u64]) -> StoredState {
        let mut state = StoredState::default();
        state.sessions.insert("a".to_owned(), ClientSession { created: 0, ended: false });
        for &version in samplers {
            let sampler =
                Sampler { session: "a".to_owned(), path: None, weights: Some(weights(version)), created: version };
            state.samplers.insert(format!("a:sample:{version}"), sampler);
        }
        state
    }

    fn checkpoint(version: u64) -> Checkpoint {
        Checkpoint {
            model: "a:train:0".to_owned(),
            name: "latest".to_owned(),
            kind: CheckpointKind::Sampler,
            created: 0,
            expires: None,
            user_metadata: None,
            run_id: String::new(),
            folder: None,
            size_bytes: 1,
            weights: Some(weights(version)),
        }
    }

    fn versions(weights: &[Weights]) -> Vec<u64> {
        weights.iter().map(|weights| weights.version).collect()
    }

    #[test]
    fn the_digest_of_all_files_survives_a_restart_and_is_unknown_to_earlier_states() {
        let given = WeightsRef::at_path(3, "sha256:a", "/weights/3", 1).with_files_digest("sha256:b");
        let text = serde_json::to_string(&Weights::of(given.clone()).unwrap()).unwrap();
        assert_eq!(serde_json::from_str::<Weights>(&text).unwrap().reference(), given);
        let earlier = r#"{"version":3,"digest":"sha256:a","path":"/weights/3","size_bytes":1}"#;
        let reference = serde_json::from_str::<Weights>(earlier).unwrap().reference();
        assert_eq!(reference, given.with_files_digest(""));
    }

    #[test]
    fn a_name_that_is_saved_again_leaves_its_earlier_weights_to_their_samplers_only() {
        let mut state = state(&[1, 2, 3]);
        state.checkpoints.insert("latest".to_owned(), checkpoint(3));
        assert_eq!(versions(&state.tidy(1, Some(weights(2)))), [1], "the newest nameless one stays");
        state.sessions.get_mut("a").unwrap().ended = true;
        assert_eq!(versions(&state.tidy(1, None)), [2], "and ends with its session");
        assert_eq!(state.samplers.len(), 1, "weights with a name stay");
        let deleted = state.checkpoints.remove("latest").unwrap().weights;
        assert_eq!(versions(&state.tidy(1, deleted)), [3]);
    }

    #[test]
    fn weights_that_no_sampler_has_are_removed_when_their_name_is_saved_again() {
        let mut state = state(&[]);
        state.checkpoints.insert("latest".to_owned(), checkpoint(2));
        assert_eq!(versions(&state.tidy(1, Some(weights(1)))), [1]);
    }

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        StoredState::write(folder.path(), StoredState::default().content()).unwrap();
        let large = state(&(0..100).collect::<Vec<_>>()).content();
        let error = StoredState::write_up_to(folder.path(), large, 500).unwrap_err().to_string();
        assert!(error.contains("allowed: at most 500"), "{error}");
        let file = std::fs::read(folder.path().join(FILE)).unwrap();
        assert_eq!(file, StoredState::default().content());
    }
}
