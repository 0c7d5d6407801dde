//! Requests to stop a run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

use crate::error::Halt;

/// How soon the run is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Requested {
    No,
    AfterStep,
    AbandonStep,
    Now,
}

/// The stop signal of one run. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    requested: watch::Sender<Requested>,
    /// The limit that a judge has reached, where that is why the run stops.
    used_budget: Arc<OnceLock<String>>,
    /// Whether somebody has requested that the step is given up.
    by_user: Arc<AtomicBool>,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self { requested: watch::Sender::new(Requested::No), used_budget: Arc::default(), by_user: Arc::default() }
    }

    /// Requests a stop after the step. An earlier request for an immediate one stays.
    pub(crate) fn after_step(&self) {
        self.request(Requested::AfterStep);
    }

    /// Requests a stop at the end of the last whole step: one that is sampled or trained is given up, what has been
    /// trained is kept.
    pub(crate) fn abandoning_step(&self) {
        self.by_user.store(true, Ordering::Relaxed);
        self.request(Requested::AbandonStep);
    }

    /// Requests a stop at the end of the last whole step because a judge has reached a limit: without its verdicts no
    /// step gets whole.
    pub(crate) fn budget_used(&self, limit: &str) {
        // The first one is said.
        let _ = self.used_budget.set(limit.to_owned());
        self.request(Requested::AbandonStep);
    }

    /// The limit of [`Self::budget_used`].
    pub(crate) fn used_budget(&self) -> Option<&str> {
        self.used_budget.get().map(String::as_str)
    }

    /// Whether a judge's budget alone is why the step in progress is given up.
    fn is_of_budget(&self) -> bool {
        !self.by_user.load(Ordering::Relaxed) && self.used_budget().is_some()
    }

    /// Requests an immediate stop; the current step is not finished.
    pub(crate) fn immediately(&self) {
        self.request(Requested::Now);
    }

    fn request(&self, wanted: Requested) {
        self.requested.send_modify(|requested| *requested = wanted.max(*requested));
    }

    pub(crate) fn is_requested(&self) -> bool {
        *self.requested.borrow() != Requested::No
    }

    /// Completes where a step that is not trained yet is to be given up. A judge's budget takes nothing from one that
    /// has all its verdicts; a user does, also after the budget.
    pub(crate) async fn step_abandoned(&self, has_verdicts: bool) {
        let spares = || has_verdicts && self.is_of_budget();
        self.wait_for(|requested| requested >= Requested::AbandonStep && !spares()).await;
    }

    /// Whether a step may have been given up.
    pub(crate) fn abandons_step(&self) -> bool {
        *self.requested.borrow() >= Requested::AbandonStep
    }

    /// Completes at an immediate stop.
    pub(crate) async fn now(&self) -> Halt {
        self.at_least(Requested::Now).await
    }

    /// Completes at any stop: a wait for something that may never come is not continued to the end of the step.
    pub(crate) async fn any(&self) -> Halt {
        self.at_least(Requested::AfterStep).await
    }

    async fn at_least(&self, least: Requested) -> Halt {
        self.wait_for(|requested| requested >= least).await;
        Halt::Stop
    }

    /// Looks again after every request, also one that asks for nothing more than the one before.
    async fn wait_for(&self, is_met: impl Fn(Requested) -> bool) {
        // This value holds a sender, so the wait cannot fail.
        let _ = self.requested.subscribe().wait_for(|requested| is_met(*requested)).await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_budget_that_is_used_up_during_the_wait_spares_a_step_with_all_its_verdicts_and_no_other() {
        let stop = Stop::new();
        let (mut whole, mut sampled) = (Box::pin(stop.step_abandoned(true)), Box::pin(stop.step_abandoned(false)));
        assert!((&mut whole).now_or_never().is_none() && (&mut sampled).now_or_never().is_none());
        stop.budget_used("a limit");
        assert!((&mut whole).now_or_never().is_none());
        assert!((&mut sampled).now_or_never().is_some());
    }

    #[test]
    fn a_user_gives_up_any_step_after_the_budget_and_before() {
        let stop = Stop::new();
        let mut whole = Box::pin(stop.step_abandoned(true));
        stop.budget_used("a limit");
        assert!((&mut whole).now_or_never().is_none());
        stop.abandoning_step();
        assert!(whole.now_or_never().is_some());
        let stop = Stop::new();
        stop.abandoning_step();
        stop.budget_used("a limit");
        assert!(stop.step_abandoned(true).now_or_never().is_some());
    }
}
