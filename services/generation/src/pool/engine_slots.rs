//! One engine as the balancer sees it: its slots, and whether they may be taken.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::breaker::{BreakerState, CircuitBreaker};
use super::engine_state::EngineState;
use super::throughput::Throughput;
use super::weights::{Interruption, WeightsSession, WeightsVersion};
use crate::engine::{EngineClientError, EngineFault, EngineMetrics};
use crate::settings::GenerationSettings;

/// An engine on probation may have this fraction of the samples that a healthy one may have.
const PROBATION_DIVISOR: usize = 8;

/// What is known about an engine at one moment.
#[derive(Debug, Clone)]
pub(crate) struct EngineSnapshot {
    pub(crate) state: EngineState,
    /// The version number that the engine reported last.
    pub(crate) reported_version: Option<u64>,
    pub(crate) in_flight: usize,
    /// Tokens that these may still take.
    pub(crate) outstanding_tokens: u64,
    pub(crate) tokens_per_second: f64,
    /// Failed samples in a row.
    pub(crate) failures: u32,
    /// `None` if nothing failed yet.
    pub(crate) last_error: Option<String>,
    pub(crate) metrics: Option<EngineMetrics>,
}

/// The slots of one engine.
#[derive(Debug)]
pub(super) struct EngineSlots {
    state: EngineState,
    session: Arc<WeightsSession>,
    /// Whether the engine is paused for other weights, but still takes samples of its own version until none are left.
    finishing: bool,
    /// Sessions of earlier adapters that it still has, beside its current weights: they go on until their samples are
    /// done.
    earlier: Vec<Arc<WeightsSession>>,
    in_flight: usize,
    outstanding_tokens: u64,
    /// Number of its last assignment, so that equally loaded engines take turns.
    last_assigned: u64,
    max_in_flight: usize,
    /// Lower limit while too many requests wait inside the engine.
    queue_limit: Option<usize>,
    breaker: CircuitBreaker,
    last_error: Option<String>,
    reported_version: Option<u64>,
    metrics: Option<EngineMetrics>,
    throughput: Throughput,
    /// Notified whenever a sample leaves.
    released: Arc<Notify>,
}

impl EngineSlots {
    /// Slots of an engine that gets no samples before it is admitted.
    pub(super) fn new(weights: &Arc<WeightsVersion>, settings: &GenerationSettings, now: Instant) -> Self {
        Self {
            state: EngineState::CircuitOpen,
            session: WeightsSession::new(Arc::clone(weights)),
            finishing: false,
            earlier: Vec::new(),
            in_flight: 0,
            outstanding_tokens: 0,
            last_assigned: 0,
            max_in_flight: settings.max_in_flight,
            queue_limit: None,
            breaker: CircuitBreaker::new(&settings.engine),
            last_error: None,
            reported_version: None,
            metrics: None,
            throughput: Throughput::new(now),
            released: Arc::default(),
        }
    }

    pub(super) fn state(&self) -> EngineState {
        self.state
    }

    pub(super) fn session(&self) -> &Arc<WeightsSession> {
        &self.session
    }

    pub(super) fn breaker(&self, now: Instant) -> BreakerState {
        self.breaker.state(now)
    }

    pub(super) fn outstanding_tokens(&self) -> u64 {
        self.outstanding_tokens
    }

    pub(super) fn last_assigned(&self) -> u64 {
        self.last_assigned
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    pub(super) fn released(&self) -> Arc<Notify> {
        Arc::clone(&self.released)
    }

    /// Whether it is draining and has nothing in flight.
    pub(super) fn is_drained(&self) -> bool {
        self.state == EngineState::Draining && self.is_idle()
    }

    /// Whether it can take another sample now.
    pub(super) fn has_capacity(&self) -> bool {
        let limit = match self.state {
            EngineState::Healthy => self.max_in_flight,
            EngineState::Suspect => (self.max_in_flight / PROBATION_DIVISOR).max(1),
            EngineState::CircuitOpen | EngineState::Paused | EngineState::Stale | EngineState::Draining => 0,
        };
        self.in_flight < limit.min(self.queue_limit.unwrap_or(limit))
    }

    /// Whether it still takes samples of that version although other weights are current.
    pub(super) fn finishes(&self, version: u64) -> bool {
        self.finishing_session(version).is_some()
    }

    /// The session that they join.
    fn finishing_session(&self, version: u64) -> Option<&Arc<WeightsSession>> {
        let own = (self.finishing && !self.session.is_interrupted()).then_some(&self.session);
        let earlier = self.earlier.iter().filter(|session| session.is_open());
        own.into_iter().chain(earlier).find(|session| session.weights().number == version)
    }

    /// Whether it can take another of them now.
    pub(super) fn can_finish(&self, version: u64) -> bool {
        let limit = self.max_in_flight;
        self.finishes(version) && self.in_flight < limit.min(self.queue_limit.unwrap_or(limit))
    }

    /// Ends taking samples of earlier versions.
    pub(super) fn end_finishing(&mut self) {
        self.finishing = false;
        self.earlier.clear();
    }

    /// Takes a sample with this limit on its tokens: the `number`th assignment of the balancer, of an earlier version
    /// where it says so. Returns the session that it joins.
    pub(super) fn assign(&mut self, tokens: u64, number: u64, earlier: Option<u64>) -> Arc<WeightsSession> {
        self.in_flight += 1;
        self.outstanding_tokens += tokens;
        self.last_assigned = number;
        let session = earlier.and_then(|version| self.finishing_session(version)).unwrap_or(&self.session);
        session.begin_sample();
        Arc::clone(session)
    }

    /// Every session that may have samples.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &Arc<WeightsSession>> {
        self.earlier.iter().chain([&self.session])
    }

    /// Forgets earlier sessions without samples whose version is not wanted any more. Returns whether there was any.
    pub(super) fn forget_earlier(&mut self, is_wanted: impl Fn(u64) -> bool) -> bool {
        let before = self.earlier.len();
        self.earlier.retain(|session| !session.is_idle() || (session.is_open() && is_wanted(session.weights().number)));
        self.earlier.len() < before
    }

    /// Takes nothing more of its own version while it is paused for another one, if that has no samples and none that
    /// wait.
    pub(super) fn finish_own(&mut self, waits: impl Fn(u64) -> bool) {
        if self.session.is_idle() && !waits(self.session.weights().number) {
            self.finishing = false;
        }
    }

    /// Whether samples may be drawn from an adapter of this name, now or soon.
    pub(super) fn uses(&self, adapter: &str) -> bool {
        let is_named = |session: &WeightsSession| session.weights().label.as_deref() == Some(adapter);
        let serves = self.finishing || self.state.is_serving() || !self.session.is_idle();
        (serves && is_named(&self.session)) || self.earlier.iter().any(|session| is_named(session))
    }

    /// How many adapters samples may be drawn from, now or soon.
    pub(super) fn adapters_in_use(&self) -> usize {
        let used = |session: &&Arc<WeightsSession>| {
            let weights = session.weights();
            weights.is_adapter && weights.label.as_deref().is_some_and(|label| self.uses(label))
        };
        self.sessions().filter(used).count()
    }

    /// A sample left it.
    pub(super) fn release(&mut self, tokens: u64) {
        self.in_flight -= 1;
        self.outstanding_tokens -= tokens;
        self.released.notify_waiters();
    }

    /// Serves `weights` from now on. Requests in flight stay in the session that they began in.
    pub(super) fn admit(&mut self, state: EngineState, weights: &Arc<WeightsVersion>) {
        if self.state == EngineState::Draining {
            return;
        }
        if !self.session.is_open_for(weights) {
            self.session = WeightsSession::new(Arc::clone(weights));
        }
        self.earlier.clear();
        self.serve(state, weights);
    }

    /// Admits the engine with further weights beside those that it serves already, which samples may still ask for.
    pub(super) fn admit_beside(&mut self, state: EngineState, weights: &Arc<WeightsVersion>) {
        if self.state == EngineState::Draining {
            return;
        }
        if !self.session.is_open_for(weights) {
            let again = self.earlier.iter().position(|session| session.is_open_for(weights));
            let session = match again {
                Some(at) => self.earlier.remove(at),
                None => WeightsSession::new(Arc::clone(weights)),
            };
            let before = std::mem::replace(&mut self.session, session);
            // Samples that were called back have left it, or are about to.
            if before.is_open() || !before.is_idle() {
                self.earlier.push(before);
            }
        }
        self.serve(state, weights);
    }

    fn serve(&mut self, state: EngineState, weights: &WeightsVersion) {
        self.finishing = false;
        self.reported_version = Some(weights.number);
        self.state = state;
    }

    /// No new samples until the weights are updated or [`Self::unpause`] is called. Without effect unless it is
    /// serving.
    pub(super) fn pause(&mut self) {
        if self.state.is_serving() {
            self.state = EngineState::Paused;
        }
    }

    /// Pauses the engine for weights that become current; `finish`: after the samples of its own version.
    pub(super) fn pause_for_weights(&mut self, finish: bool) {
        self.finishing = finish && (self.state.is_serving() || self.finishing);
        self.pause();
    }

    /// Ends a pause in which nothing was changed; on probation, since it did not become idle in time.
    pub(super) fn unpause(&mut self) {
        if self.state == EngineState::Paused {
            self.state = EngineState::Suspect;
        }
    }

    /// Takes no new samples and loses those in flight.
    pub(super) fn eject(&mut self, state: EngineState, reason: &str) {
        if self.state != EngineState::Draining {
            self.state = state;
        }
        self.finishing = false;
        self.last_error = Some(reason.to_owned());
        self.sessions().for_each(|session| session.interrupt(Interruption::EngineLost(reason.to_owned())));
        self.earlier.clear();
    }

    /// Finishes what is in flight and takes nothing more.
    pub(super) fn drain(&mut self) {
        self.end_finishing();
        self.state = EngineState::Draining;
    }

    /// Ends a drain: the engine is probed like one that was ejected.
    pub(super) fn undrain(&mut self) {
        self.state = EngineState::CircuitOpen;
    }

    pub(super) fn set_reported_version(&mut self, version: Option<u64>) {
        self.reported_version = version;
    }

    /// Follows the engine's own metrics. Requests that wait in its queue would better wait here, where another engine
    /// may become free first: it keeps as many samples as leave `max_waiting` of them queued, at least one.
    pub(super) fn set_metrics(&mut self, metrics: Option<EngineMetrics>, max_waiting: u64) {
        self.metrics = metrics;
        let excess = metrics.map_or(0, |metrics| metrics.waiting.saturating_sub(max_waiting));
        let excess = usize::try_from(excess).unwrap_or(usize::MAX);
        self.queue_limit = (excess > 0).then(|| self.in_flight.saturating_sub(excess).max(1));
    }

    /// A sample succeeded. Ends probation.
    pub(super) fn record_success(&mut self, tokens: usize, now: Instant) {
        self.breaker.record_success();
        self.throughput.add(now, tokens as u64);
        if self.state == EngineState::Suspect {
            self.state = EngineState::Healthy;
        }
    }

    /// A sample failed, through no fault of its own.
    pub(super) fn record_failure(&mut self, error: &EngineClientError, now: Instant) {
        if error.fault() == EngineFault::Connection {
            // It must not get a second attempt, even where its update still waits for its other samples.
            self.end_finishing();
        }
        // An engine that was ejected or updated in the meantime has been judged already.
        if !self.state.is_serving() || self.session.is_interrupted() {
            return;
        }
        self.last_error = Some(error.to_string());
        if error.fault() == EngineFault::Connection {
            // The health monitor finds out at once whether it is up.
            self.state = EngineState::CircuitOpen;
            return;
        }
        let tripped = self.breaker.record_failure(now);
        self.state = if tripped { EngineState::CircuitOpen } else { EngineState::Suspect };
    }

    pub(super) fn snapshot(&mut self, now: Instant) -> EngineSnapshot {
        EngineSnapshot {
            state: self.state,
            reported_version: self.reported_version,
            in_flight: self.in_flight,
            outstanding_tokens: self.outstanding_tokens,
            tokens_per_second: self.throughput.per_second(now),
            failures: self.breaker.failures(),
            last_error: self.last_error.clone(),
            metrics: self.metrics,
        }
    }
}
