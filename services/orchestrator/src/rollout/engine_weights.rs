//! The weights of the engines, as samples and proofs see them: a copy of what the loop knows, and requests to it for
//! weights that the engines lack. What is updated when is decided by the loop.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::WeightsRef;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tracing::Span;

use crate::error::{Halt, RunError};

/// How long a sample waits for engines that are being updated to its weights.
const PAUSE: Duration = Duration::from_millis(20);

/// What the loop says of the engines, and the way to ask it.
pub(crate) struct EngineWeights {
    seen: watch::Sender<EnginesSeen>,
    requests: mpsc::UnboundedSender<WeightsRequest>,
    /// The end of the loop that is in progress: after a return to a checkpoint there is another one.
    received: Mutex<mpsc::UnboundedReceiver<WeightsRequest>>,
}

/// What the loop knows of the engines at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EnginesSeen {
    pub(crate) updates: UpdateCounts,
    /// The version that the run last updated the engines to.
    pub(crate) target: Option<u64>,
    /// Whether they are updated to weights that a request asked for.
    pub(crate) is_restoring: bool,
}

/// The updates of the engines up to a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UpdateCounts {
    updates: u64,
    /// How many of these were to another version than the one before.
    version_changes: u64,
}

/// Why engines lacked weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MissingWeights {
    /// The engines had been updated to other weights, or not yet to these.
    Superseded,
    /// The engines had these weights last, as after a restart of the generation service.
    Lost,
    /// The run is updating them to these.
    Updating,
}

/// A request for weights that engines lack, until it is answered or dropped.
pub(crate) struct WeightsRequest {
    /// The weights; `None` for those that the run has updated the engines to.
    pub(crate) weights: Option<WeightsRef>,
    pub(crate) seen: UpdateCounts,
    /// Tracing span of what lacks them.
    pub(crate) span: Span,
    answer: oneshot::Sender<MissingWeights>,
}

impl UpdateCounts {
    /// The engines were updated, to another version than before or once more to the last one.
    pub(crate) fn add(&mut self, is_other_version: bool) {
        self.updates += 1;
        self.version_changes += u64::from(is_other_version);
    }

    /// Whether the engines went to no other version between the two moments.
    pub(crate) fn has_same_version(&self, other: Self) -> bool {
        self.version_changes == other.version_changes
    }
}

impl WeightsRequest {
    /// Tells who asked that it may try again. It may be gone.
    pub(crate) fn answer(self, cause: MissingWeights) {
        let _ = self.answer.send(cause);
    }
}

impl EngineWeights {
    pub(crate) fn new() -> Arc<Self> {
        let (requests, received) = mpsc::unbounded_channel();
        Arc::new(Self { seen: watch::Sender::default(), requests, received: Mutex::new(received) })
    }

    /// The loop says what it knows of the engines.
    pub(crate) fn show(&self, seen: EnginesSeen) {
        self.seen.send_if_modified(|shown| std::mem::replace(shown, seen) != seen);
    }

    /// The next request whose sender still waits, for the loop.
    pub(crate) async fn next_request(&self) -> Option<WeightsRequest> {
        let mut received = self.received.lock().await;
        loop {
            let request = received.recv().await?;
            if !request.answer.is_closed() {
                return Some(request);
            }
        }
    }

    /// What the loop knows of the engines. Waits while weights are restored.
    pub(crate) async fn seen(&self) -> EnginesSeen {
        let mut shown = self.seen.subscribe();
        // This value holds the sender, so that the wait cannot fail.
        match shown.wait_for(|seen| !seen.is_restoring).await {
            Ok(seen) => *seen,
            Err(_) => EnginesSeen::default(),
        }
    }

    /// Has engines that lack these weights updated to them, as after a restart of the generation service; `None` for
    /// the weights that the run last updated them to. Samples of earlier weights come first. Nothing is done where they
    /// were updated to them since they were `seen`, or are at the moment. Returns why they lacked them.
    pub(crate) async fn restore(
        &self,
        weights: Option<&WeightsRef>,
        seen: UpdateCounts,
    ) -> Result<MissingWeights, Halt> {
        let (answer, answered) = oneshot::channel();
        let request = WeightsRequest { weights: weights.cloned(), seen, span: Span::current(), answer };
        let unanswered = || RunError::Defect("a request for weights was not answered".to_owned());
        self.requests.send(request).map_err(|_| unanswered())?;
        let cause = answered.await.map_err(|_| unanswered())?;
        if cause == MissingWeights::Updating {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(cause)
    }
}
