//! A running agent, wherever it runs.

use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::failure::Failure;
use crate::score::Score;

/// How an agent ended: with a score, without one, or with a failure of its own.
pub(super) type Ended = Result<Option<Score>, Failure>;

/// An agent that runs. Dropping it ends the agent.
pub(super) struct Run {
    pub(super) ended: oneshot::Receiver<Ended>,
    /// Ends it when it is dropped.
    pub(super) _guard: Box<dyn Send>,
}

impl Run {
    /// Waits for the end of the agent.
    pub(super) async fn ended(&mut self) -> Ended {
        (&mut self.ended).await.unwrap_or_else(|_| Err(Failure::crashed("the agent is gone")))
    }
}

/// Ends a task when it is dropped.
pub(super) struct Aborts(pub(super) AbortHandle);

impl Drop for Aborts {
    fn drop(&mut self) {
        self.0.abort();
    }
}
