//! Published weights, as engines can load them again.

use evenkeel_proto::v1::{WeightsRef, weights_ref};
use serde::{Deserialize, Serialize};

/// Weights that the learner has published: the reference that engines need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) struct PublishedWeights {
    version: u64,
    digest: String,
    /// Digest of all files of the folder; empty: unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    files_digest: String,
    /// Their folder, as the learner sees it.
    path: String,
    size_bytes: u64,
}

impl PublishedWeights {
    /// The weights of a reference. Without a folder nobody can load them again.
    pub(in crate::run) fn new(weights: &WeightsRef) -> Self {
        let (path, size_bytes) = match &weights.source {
            Some(weights_ref::Source::Path(at)) => (at.path.clone(), at.size_bytes),
            _ => Default::default(),
        };
        Self {
            version: weights.version,
            digest: weights.digest.clone(),
            files_digest: weights.files_digest.clone(),
            path,
            size_bytes,
        }
    }

    pub(in crate::run) fn version(&self) -> u64 {
        self.version
    }

    /// Whether they can be loaded again.
    pub(super) fn has_folder(&self) -> bool {
        !self.path.is_empty()
    }

    /// The reference as engines take it.
    pub(in crate::run) fn reference(&self) -> WeightsRef {
        WeightsRef::at_path(self.version, self.digest.as_str(), self.path.as_str(), self.size_bytes)
            .with_files_digest(self.files_digest.as_str())
    }
}
