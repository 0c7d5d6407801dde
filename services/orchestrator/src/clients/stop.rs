//! A run that is asked to end.

use tokio::sync::watch;

use crate::error::Halt;

/// How soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    No,
    AfterStep,
    Now,
}

/// Asks a run to end, and tells its parts. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Sender<Asked>);

impl Stop {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Asked::No))
    }

    /// Asks; who asked for more before is not asked for less.
    pub(crate) fn ask(&self, now: bool) {
        let wanted = if now { Asked::Now } else { Asked::AfterStep };
        self.0.send_modify(|asked| *asked = wanted.max(*asked));
    }

    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow() != Asked::No
    }

    /// Ends when the current step is not to be finished either.
    pub(crate) async fn now(&self) -> Halt {
        self.at_least(Asked::Now).await
    }

    /// Ends at any stop: what waits for something that may never come does not go on until the step's end.
    pub(crate) async fn any(&self) -> Halt {
        self.at_least(Asked::AfterStep).await
    }

    async fn at_least(&self, least: Asked) -> Halt {
        // This very value holds a sender, so that the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|asked| *asked >= least).await;
        Halt::Stop
    }
}
