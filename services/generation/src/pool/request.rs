//! Requests for slots on engines, and the replies to them.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::weights::WeightsSession;

/// Number of an engine within its pool. Never reused.
pub(crate) type EngineId = usize;

/// A sample's request for an engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlotRequest {
    /// Tokens that it may take.
    pub(crate) tokens: u64,
    /// Group of the sample. Samples of a group prefer one engine.
    pub(crate) group: Option<String>,
    /// The policy version that must sample it; `None` for any.
    pub(crate) version: Option<u64>,
    /// The engine that failed at it last.
    pub(crate) avoid: Option<EngineId>,
    /// The engine that may have its beginning in its cache.
    pub(crate) preferred: Option<EngineId>,
}

/// A sample's slot on an engine.
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) engine: EngineId,
    pub(super) tokens: u64,
    pub(super) session: Arc<WeightsSession>,
}

/// Why a sample gets no engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rejection {
    /// No engine has the version that it needs.
    Version { requested: u64, current: u64 },
    /// No engine was available for too long.
    NoEngine,
}

pub(super) type Reply = Result<Assignment, Rejection>;

/// A request in the queue.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) request: SlotRequest,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// Replies to send once the balancer is unlocked: an assignment that nobody receives has to be released again.
#[must_use]
pub(super) struct Replies(pub(super) Vec<(oneshot::Sender<Reply>, Reply)>);

impl Replies {
    /// Sends them and returns the assignments that nobody received.
    pub(super) fn send(self) -> Vec<Assignment> {
        self.0.into_iter().filter_map(|(sender, reply)| sender.send(reply).err()?.ok()).collect()
    }
}
