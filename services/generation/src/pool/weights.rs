//! Weights versions, and the sessions in which an engine serves one of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use evenkeel_proto::v1::{PullRequest, WeightsRef};
use tokio_util::sync::CancellationToken;

use crate::engine::EngineClientError;
use crate::settings::PauseSetting;

/// One version of the policy's weights, and the label under which engines report it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WeightsVersion {
    pub(crate) number: u64,
    /// Digest of the weights. Empty for weights that the engines were started with.
    pub(crate) digest: String,
    /// Digest of all files of their folder, which agents compare. Empty if it is unknown.
    pub(crate) files_digest: String,
    /// What an engine that serves them reports. `None` if the engines were started with them and report no label.
    pub(crate) label: Option<Arc<str>>,
    /// Their folder as the engines see it. `None` for weights that the engines were started with, which cannot be
    /// loaded again.
    pub(crate) path: Option<String>,
    /// Whether they are a LoRA adapter beside the model that the engines were started with.
    pub(crate) is_adapter: bool,
}

impl WeightsVersion {
    /// The version that a request refers to, with all weights of a model.
    pub(crate) fn new(weights: &WeightsRef, path: &str) -> Self {
        // Two runs both have a version 3: the digest tells them apart.
        let label = format!("{}-{}", weights.version, weights.digest);
        Self {
            number: weights.version,
            digest: weights.digest.clone(),
            files_digest: weights.files_digest.clone(),
            label: Some(label.into()),
            path: Some(path.to_owned()),
            is_adapter: false,
        }
    }

    /// The weights that engines were started with: the version that a predecessor of this service labelled them with,
    /// otherwise 0.
    pub(crate) fn initial(reported: Option<&str>) -> Self {
        let (number, digest) = reported.and_then(parse_label).unwrap_or_default();
        let label = reported.map(Into::into);
        Self { number, digest, files_digest: String::new(), label, path: None, is_adapter: false }
    }

    /// Whether an engine that reports this label serves them. An engine without a label can only be known to serve
    /// initial weights.
    pub(crate) fn matches(&self, reported: Option<&str>) -> bool {
        self.label.as_deref() == reported
    }

    /// What an agent is asked for.
    pub(crate) fn pull_request(&self) -> PullRequest {
        let Self { number, digest, files_digest, .. } = self.clone();
        PullRequest { version: number, digest, files_digest }
    }

    /// Whether they can be loaded from a folder.
    pub(crate) fn is_loadable(&self) -> bool {
        self.path.is_some()
    }

    /// Salt of prefix caches, so that no cached prefix outlives the weights that computed it.
    pub(crate) fn cache_salt(&self) -> String {
        self.label.as_deref().map_or_else(|| self.number.to_string(), str::to_owned)
    }

    /// The error of an engine that reports other weights.
    pub(crate) fn mismatch(&self, reported: Option<String>) -> EngineClientError {
        let expected = self.label.as_deref().unwrap_or("those that it was started with").to_owned();
        EngineClientError::WrongWeights { reported: reported.unwrap_or_default(), expected }
    }
}

/// Whether a label, or the name of an adapter, is one that this service gives: a version with a digest.
pub(crate) fn is_own_label(label: &str) -> bool {
    parse_label(label).is_some_and(|(_, digest)| digest.starts_with("sha256:"))
}

/// The version number in a label. `None` if the label was not set by this service.
pub(crate) fn version_number(label: Option<&str>) -> Option<u64> {
    parse_label(label?).map(|(number, _)| number)
}

/// Version number and digest of a label, or of a bare number.
fn parse_label(label: &str) -> Option<(u64, String)> {
    let (number, digest) = label.split_once('-').unwrap_or((label, ""));
    Some((number.parse().ok()?, digest.to_owned()))
}

/// Why the requests of a session were interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// The engine is lost, or served other weights than expected: what it sampled is discarded.
    EngineLost(String),
    /// The engine was paused and did not return them: what they have sampled so far is valid.
    Paused,
}

/// One engine serving one weights version. No request outlives its session, so that every token has exactly one
/// version.
#[derive(Debug)]
pub(crate) struct WeightsSession {
    weights: Arc<WeightsVersion>,
    pause: OnceLock<PauseSetting>,
    reason: OnceLock<Interruption>,
    interrupted: CancellationToken,
    /// Samples of this session in flight.
    samples: AtomicUsize,
}

impl WeightsSession {
    pub(super) fn new(weights: Arc<WeightsVersion>) -> Arc<Self> {
        let pause = OnceLock::new();
        let reason = OnceLock::new();
        let interrupted = CancellationToken::new();
        Arc::new(Self { weights, pause, reason, interrupted, samples: AtomicUsize::new(0) })
    }

    pub(super) fn begin_sample(&self) {
        self.samples.fetch_add(1, Ordering::AcqRel);
    }

    /// A sample ended. Returns whether it was the last one.
    pub(super) fn end_sample(&self) -> bool {
        self.samples.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether it has no sample in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.samples.load(Ordering::Acquire) == 0
    }

    pub(crate) fn weights(&self) -> &WeightsVersion {
        &self.weights
    }

    /// Announces a pause for a weight update: requests that the engine aborts from now on were meant to be aborted.
    pub(crate) fn announce_pause(&self, mode: PauseSetting) {
        self.pause.get_or_init(|| mode);
    }

    /// How the announced pause treats requests in flight. `None` without an announcement.
    pub(crate) fn pause_mode(&self) -> Option<PauseSetting> {
        self.pause.get().copied()
    }

    /// Interrupts every request. The first reason counts.
    pub(crate) fn interrupt(&self, reason: Interruption) {
        self.reason.get_or_init(|| reason);
        self.interrupted.cancel();
    }

    /// Waits until requests are interrupted.
    pub(crate) async fn interruption(&self) -> Interruption {
        self.interrupted.cancelled().await;
        self.reason.get().cloned().expect("the reason is set before the token is cancelled")
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.is_cancelled()
    }

    /// Whether new requests can join this session.
    pub(super) fn is_open(&self) -> bool {
        !self.is_interrupted() && self.pause_mode().is_none()
    }

    /// Whether new requests for `weights` can.
    pub(super) fn is_open_for(&self, weights: &WeightsVersion) -> bool {
        *self.weights == *weights && self.is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_holds_version_and_digest() {
        let weights = WeightsVersion::new(&WeightsRef::at_path(17, "sha256:ab", "/w", 0), "/w");
        assert_eq!(weights.label.as_deref(), Some("17-sha256:ab"));
        assert_eq!(parse_label("17-sha256:ab"), Some((17, "sha256:ab".to_owned())));
        assert!(weights.matches(Some("17-sha256:ab")) && !weights.matches(Some("17")) && !weights.matches(None));
    }

    #[test]
    fn initial_weights_have_the_reported_version() {
        assert_eq!(WeightsVersion::initial(Some("default")).number, 0);
        assert_eq!(WeightsVersion::initial(Some("5-sha256:cd")).number, 5);
        let unlabelled = WeightsVersion::initial(None);
        assert!(unlabelled.matches(None) && unlabelled.number == 0);
    }

    #[test]
    fn names_of_others_are_not_taken_for_this_services() {
        assert!(is_own_label("17-sha256:ab"));
        for other in ["default", "17", "17-ab", "sql-lora", "a-sha256:ab"] {
            assert!(!is_own_label(other), "{other}");
        }
    }
}
