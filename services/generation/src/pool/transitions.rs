//! The state of each engine of a pool, and what changes it.

use std::sync::Arc;

use tokio::time::Instant;

use super::EnginePool;
use super::breaker::BreakerState;
use super::engine::PooledEngine;
use super::engine_slots::EngineSlots;
use super::engine_state::EngineState;
use super::weights::{Interruption, WeightsSession, WeightsVersion};
use crate::engine::{EngineClientError, EngineMetrics};
use crate::settings::PauseSetting;

/// The state of an engine.
impl EnginePool {
    /// State of the engine, and the weights that are current at the same moment.
    pub(crate) fn state(&self, engine: &PooledEngine) -> (EngineState, Arc<WeightsVersion>) {
        let balancer = self.balancer();
        (balancer.slots(engine.id()).state(), Arc::clone(balancer.weights()))
    }

    pub(crate) fn session(&self, engine: &PooledEngine) -> Arc<WeightsSession> {
        Arc::clone(self.balancer().slots(engine.id()).session())
    }

    /// Makes sure that what an engine has sent since its session began came from the session's weights. One that has
    /// others gets no samples until it is updated.
    ///
    /// # Errors
    /// Other weights; an engine that was lost meanwhile, or cannot be asked.
    pub(crate) async fn verify_weights(
        &self,
        engine: &PooledEngine,
        session: &WeightsSession,
    ) -> Result<(), EngineClientError> {
        let verified = engine.verify_weights(session.weights()).await;
        if let Err(error @ EngineClientError::WrongWeights { .. }) = &verified {
            self.eject(engine, EngineState::Stale, &error.to_string());
            engine.request_check();
        }
        verified?;
        if session.is_interrupted() {
            return Err(EngineClientError::Interrupted { reason: "its engine was lost meanwhile".to_owned() });
        }
        Ok(())
    }

    /// Gives samples to an engine that serves these weights. Without effect if others became current, or if it is
    /// draining. Adapters by name are served beside earlier ones.
    pub(crate) fn admit(&self, engine: &PooledEngine, state: EngineState, serves: &WeightsVersion) {
        let beside = engine.adapter_name(serves).is_some();
        self.update(engine, |slots, current| {
            if **current == *serves {
                if beside { slots.admit_beside(state, current) } else { slots.admit(state, current) }
            }
        });
    }

    /// Announces a pause to every sample of an engine: those that it aborts from now on were meant to be aborted.
    pub(crate) fn announce_pause(&self, engine: &PooledEngine, mode: PauseSetting) {
        self.balancer().slots(engine.id()).sessions().for_each(|session| session.announce_pause(mode));
    }

    /// Interrupts every sample of an engine.
    pub(crate) fn interrupt(&self, engine: &PooledEngine, reason: &Interruption) {
        self.balancer().slots(engine.id()).sessions().for_each(|session| session.interrupt(reason.clone()));
    }

    /// Gives an engine nothing more and takes back what it has.
    pub(crate) fn eject(&self, engine: &PooledEngine, state: EngineState, reason: &str) {
        engine.set_comparison_due(true);
        self.update(engine, |slots, _| slots.eject(state, reason));
    }

    /// Gives a serving engine nothing more for now.
    pub(crate) fn pause(&self, engine: &PooledEngine) {
        self.update(engine, |slots, _| slots.pause());
    }

    /// Ends a pause in which nothing was changed.
    pub(crate) fn unpause(&self, engine: &PooledEngine) {
        self.update(engine, |slots, _| slots.unpause());
    }

    /// Notes the version that an engine reports.
    pub(crate) fn set_reported_version(&self, engine: &PooledEngine, version: Option<u64>) {
        self.update(engine, |slots, _| slots.set_reported_version(version));
    }

    /// Notes an engine's metrics, which bound how many samples it gets.
    pub(crate) fn set_metrics(&self, engine: &PooledEngine, metrics: Option<EngineMetrics>) {
        let max_waiting = self.settings.engine.max_waiting.into();
        self.update(engine, |slots, _| slots.set_metrics(metrics, max_waiting));
    }

    /// The state of an engine's circuit breaker.
    pub(crate) fn breaker(&self, engine: &PooledEngine) -> BreakerState {
        self.balancer().slots(engine.id()).breaker(Instant::now())
    }

    /// Waits until an engine has no sample in flight.
    pub(crate) async fn until_idle(&self, engine: &PooledEngine) {
        let released = self.balancer().slots(engine.id()).released();
        loop {
            let release = released.notified();
            if self.balancer().slots(engine.id()).is_idle() {
                return;
            }
            release.await;
        }
    }

    /// Waits until samples are drawn from at most `most` adapters of an engine. It gets nothing more of the others
    /// then.
    pub(crate) async fn until_at_most(&self, engine: &PooledEngine, most: usize) {
        let released = self.balancer().slots(engine.id()).released();
        loop {
            let release = released.notified();
            if self.balancer().has_at_most(engine.id(), most) {
                return;
            }
            release.await;
        }
    }

    /// Whether that is so now.
    pub(crate) fn has_at_most(&self, engine: &PooledEngine, most: usize) -> bool {
        self.balancer().has_at_most(engine.id(), most)
    }

    /// Forgets earlier adapters of an engine that no sample asks for any more. Returns whether there was any.
    pub(crate) fn forget_earlier(&self, engine: &PooledEngine) -> bool {
        self.balancer().forget_earlier(engine.id())
    }

    /// Whether samples may be drawn from an adapter of this name on an engine, now or soon.
    pub(crate) fn uses(&self, engine: &PooledEngine, adapter: &str) -> bool {
        self.balancer().slots(engine.id()).uses(adapter)
    }

    /// Whether an engine has no sample in flight.
    pub(crate) fn is_idle(&self, engine: &PooledEngine) -> bool {
        self.balancer().slots(engine.id()).is_idle()
    }

    /// Waits until nothing is left of the weights that an engine has, neither in flight nor waiting. It gets nothing
    /// more of them then.
    pub(crate) async fn until_finished(&self, engine: &PooledEngine) {
        let released = self.balancer().slots(engine.id()).released();
        loop {
            let release = released.notified();
            if self.balancer().finish(engine.id()) {
                return;
            }
            release.await;
        }
    }

    pub(super) fn record_success(&self, engine: &PooledEngine, tokens: usize) {
        self.update(engine, |slots, _| slots.record_success(tokens, Instant::now()));
    }

    pub(super) fn record_failure(&self, engine: &PooledEngine, error: &EngineClientError) {
        metrics::counter!(
            "evenkeel_engine_failures_total", "engine" => engine.name().to_owned(), "kind" => error.kind()
        )
        .increment(1);
        self.update(engine, |slots, _| slots.record_failure(error, Instant::now()));
        tracing::debug!(engine = engine.name(), %error, "sample failed");
        engine.request_check();
    }

    pub(super) fn update(&self, engine: &PooledEngine, change: impl FnOnce(&mut EngineSlots, &Arc<WeightsVersion>)) {
        let replies = self.balancer().update(engine.id(), Instant::now(), change);
        self.deliver(replies);
    }
}
