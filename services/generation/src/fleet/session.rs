//! The time of one engine under one set of weights. No request outlives its session, so that every token has exactly one version.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::settings::PauseSetting;
use crate::weights::Target;

/// Why requests of a session were cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The engine is lost, or turned out to have other weights: what it sampled is forgotten.
    Lost(String),
    /// The engine is paused and did not hand them back: what they have so far holds.
    Paused,
}

/// One engine under one set of weights.
#[derive(Debug)]
pub(crate) struct Session {
    /// The weights.
    pub(crate) target: Arc<Target>,
    pausing: OnceLock<PauseSetting>,
    reason: OnceLock<Cut>,
    token: CancellationToken,
}

impl Session {
    pub(crate) fn new(target: Arc<Target>) -> Arc<Self> {
        let (pausing, reason, token) = (OnceLock::new(), OnceLock::new(), CancellationToken::new());
        Arc::new(Self { target, pausing, reason, token })
    }

    /// The engine is about to be paused for other weights: samples that it gives up were meant to be.
    pub(crate) fn begin_pause(&self, mode: PauseSetting) {
        self.pausing.get_or_init(|| mode);
    }

    /// How samples in work are to be treated. `None` where no pause was asked for.
    pub(crate) fn pausing(&self) -> Option<PauseSetting> {
        self.pausing.get().copied()
    }

    /// Takes every request back.
    pub(crate) fn cut(&self, reason: Cut) {
        self.reason.get_or_init(|| reason);
        self.token.cancel();
    }

    /// Ends when requests are taken back.
    pub(crate) async fn was_cut(&self) -> Cut {
        self.token.cancelled().await;
        self.reason.get().cloned().expect("the reason is set before the token is cancelled")
    }

    /// Whether requests were taken back.
    pub(crate) fn is_cut(&self) -> bool {
        self.token.is_cancelled()
    }
}
