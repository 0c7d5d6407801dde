//! A sample in progress. It outlives the attempts, so that a sample that is stopped can answer with what it has.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::append_sampled;
use evenkeel_proto::v1::Segment;
use tokio::time::Instant;

use crate::engine::{EngineTimings, SampledTokens};
use crate::pool::{EngineSlot, PooledEngine};

/// What a sample has so far.
#[derive(Default)]
pub(super) struct PartialSample {
    /// The response, without the tokens of the current attempt.
    segments: Vec<Segment>,
    /// Tokens of the current attempt.
    tokens: SampledTokens,
    /// Version that the current attempt samples from.
    version: u64,
    /// Engine of the last attempt.
    engine: Option<Arc<PooledEngine>>,
    /// The seed of the current attempt.
    seed: Option<u64>,
    attempts: u32,
    /// Time spent without an engine.
    queued: Duration,
    /// Since when it has no engine, while it has none.
    waiting_since: Option<Instant>,
    timings: EngineTimings,
    /// Tokens of the response that this service has sampled.
    sampled: u32,
}

/// What a sample had at its end.
pub(super) struct Sampled {
    pub(super) segments: Vec<Segment>,
    /// Engine of the last attempt.
    pub(super) engine: Option<Arc<PooledEngine>>,
    pub(super) attempts: u32,
    /// Time spent without an engine.
    pub(super) queued: Duration,
    pub(super) timings: EngineTimings,
}

impl PartialSample {
    /// A sample whose response begins with these segments.
    pub(super) fn after(prefix: &[Segment]) -> Self {
        Self { segments: prefix.to_vec(), ..Self::default() }
    }

    pub(super) fn begin_attempt(&mut self) {
        self.attempts += 1;
    }

    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The sample has no engine from now on.
    pub(super) fn begin_wait(&mut self) {
        self.waiting_since = Some(Instant::now());
    }

    /// The sample waits no longer.
    pub(super) fn end_wait(&mut self) {
        self.queued += self.waiting_since.take().map(|since| since.elapsed()).unwrap_or_default();
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.waiting_since.is_some()
    }

    /// The next tokens come from this engine.
    pub(super) fn assign(&mut self, slot: &EngineSlot) {
        self.engine = Some(Arc::clone(slot.engine()));
        self.version = slot.session().weights().number;
    }

    /// The next tokens are drawn with this seed, if the engine gets one.
    pub(super) fn seed(&mut self, seed: Option<u64>) {
        self.seed = seed;
    }

    /// Where an engine writes the tokens of the current attempt.
    pub(super) fn tokens_mut(&mut self) -> &mut SampledTokens {
        &mut self.tokens
    }

    /// Tokens of the current attempt that are not in the response yet.
    pub(super) fn unkept(&self) -> usize {
        self.tokens.count()
    }

    /// Appends the tokens of the current attempt to the response.
    pub(super) fn keep(&mut self) {
        let (ids, log_probabilities) = (self.tokens.ids().to_vec(), self.tokens.log_probabilities().to_vec());
        let (name, arithmetic) = self.engine.as_ref().map_or(("", ""), |engine| (engine.name(), engine.arithmetic()));
        let (engine, arithmetic) = (name.to_owned(), arithmetic.to_owned());
        let seed = self.seed.filter(|_| !arithmetic.is_empty());
        let sampled = Segment { engine, arithmetic, seed, ..Segment::sampled(ids, log_probabilities, self.version) };
        append_sampled(&mut self.segments, sampled);
        self.sampled += u32::try_from(self.tokens.count()).unwrap_or(u32::MAX);
        self.tokens.clear();
    }

    /// Drops the tokens of the current attempt.
    pub(super) fn discard(&mut self) {
        self.tokens.clear();
    }

    /// Tokens of the response that this service has sampled.
    pub(super) fn sampled(&self) -> u32 {
        self.sampled
    }

    /// Token ids of the response.
    pub(super) fn token_ids(&self) -> impl Iterator<Item = u32> {
        self.segments.iter().flat_map(|segment| segment.token_ids.iter().copied())
    }

    pub(super) fn set_timings(&mut self, timings: EngineTimings) {
        self.timings = timings;
    }

    /// Ends the sample. Without `keeps` there is no response.
    pub(super) fn end(mut self, keeps: bool) -> Sampled {
        self.end_wait();
        if !self.engine.as_ref().is_some_and(|engine| engine.is_verified()) {
            // It is uncertain which weights sampled the last tokens, and there is no time to find out.
            self.discard();
        }
        if keeps {
            self.keep();
        } else {
            self.segments.clear();
        }
        let Self { segments, engine, attempts, queued, timings, .. } = self;
        Sampled { segments, engine, attempts, queued, timings }
    }
}
