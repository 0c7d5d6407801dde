//! What the service needs of an inference engine, whichever it is: one sample, a probe, and a change of weights in single steps.
//!
//! [`vllm`] is the one that there is. The steps are those of servers that load weights from a folder; adapters, broadcasts and
//! other servers' routes (SGLang) fit behind the same ones.

mod believe;
mod error;
pub(crate) mod vllm;

use std::future::Future;
use std::pin::Pin;

use evenkeel_proto::SamplingSettings;
use evenkeel_proto::v1::{LogProbabilityMode, SleepLevel};

pub(crate) use believe::believe;
pub(crate) use error::{Blame, EngineError};

/// A future of a trait object.
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;

/// One sample as an engine is asked for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draw<'a> {
    /// Unique among the requests of this service.
    pub(crate) request_id: &'a str,
    /// Prompt and the response so far.
    pub(crate) token_ids: &'a [u32],
    /// Settings of what is sampled from here on; `max_tokens` fits the context.
    pub(crate) sampling: &'a SamplingSettings,
    /// Prefixes are cached under it: the weights' own, so that none outlives its weights.
    pub(crate) cache_salt: &'a str,
    /// W3C traceparent.
    pub(crate) traceparent: &'a str,
    /// Token by token rather than at the end.
    pub(crate) stream: bool,
}

/// Sampled tokens. As many log-probabilities as ids, at any moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tokens {
    pub(crate) ids: Vec<u32>,
    pub(crate) log_probabilities: Vec<f32>,
}

impl Tokens {
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn clear(&mut self) {
        self.ids.clear();
        self.log_probabilities.clear();
    }
}

/// Why an engine stopped sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    /// End of sequence, or a stop token.
    Stop,
    /// `max_tokens` or the context.
    Length,
    /// The policy repeated itself.
    Repetition,
    /// The engine gave it up.
    Aborted,
}

/// How a sample ended, and how long its parts took in the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) finish: Finish,
    pub(crate) timings: EngineTimings,
}

/// Microseconds; 0 where the engine does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EngineTimings {
    pub(crate) queue_us: u64,
    pub(crate) prefill_us: u64,
    pub(crate) decode_us: u64,
}

/// What an engine is, as far as it can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EngineInfo {
    /// Such as `vllm 0.32.0`.
    pub(crate) version: String,
    /// Name that its model is served under.
    pub(crate) model: String,
    /// Where it says that its model came from; a folder or a name.
    pub(crate) root: String,
    /// Longest sequence.
    pub(crate) context_tokens: u32,
    /// What its log-probabilities are taken of.
    pub(crate) log_probabilities: LogProbabilityMode,
    /// It has the routes that change weights.
    pub(crate) switches_weights: bool,
    /// It was found paused: a change of weights was not finished.
    pub(crate) found_paused: bool,
}

/// What an engine's own metrics say of its load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Demand {
    /// Requests that it works on.
    pub(crate) running: u64,
    /// Requests that wait in it.
    pub(crate) waiting: u64,
    /// Part of its cache that is in use, from 0 to 1.
    pub(crate) cache_usage: f64,
}

/// Which memory an engine that sleeps takes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// That of its weights.
    Weights,
    /// That of its cache; then it samples again.
    Cache,
    /// All of it; then it samples again.
    All,
}

/// How samples in work are treated by a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnginePause {
    /// They come back with what they have.
    Abort,
    /// They are finished.
    Wait,
}

/// An inference engine.
pub(crate) trait Engine: Send + Sync + 'static {
    /// Its URL.
    fn endpoint(&self) -> &str;

    /// Connections for samples made so far: an engine that restarted cannot be reached over an old one.
    fn connections(&self) -> u64;

    /// Everything that is to be known before the first sample, from one tiny one among other things.
    fn probe(&self) -> Boxed<'_, EngineInfo>;

    /// Whether it lives. A paused engine does.
    fn health(&self) -> Boxed<'_, ()>;

    /// What its metrics say of its load. `None` where it has none.
    fn demand(&self) -> Boxed<'_, Option<Demand>>;

    /// Whether it samples.
    fn samples(&self) -> Boxed<'_, ()>;

    /// Draws a sample. `tokens` is empty before, and holds at any moment what has been received and checked so far.
    fn sample<'a>(&'a self, draw: Draw<'a>, tokens: &'a mut Tokens) -> Boxed<'a, Ending>;

    /// What it says that its weights are. `None` where it has no such notion.
    fn weights(&self) -> Boxed<'_, Option<String>>;

    /// Stops sampling.
    fn pause(&self, mode: EnginePause, clear_cache: bool) -> Boxed<'_, ()>;

    /// Loads weights from a folder, for as long as it takes.
    fn load<'a>(&'a self, path: &'a str) -> Boxed<'a, ()>;

    /// Tells it what its weights are. False where it has no such notion.
    fn name_weights<'a>(&'a self, label: &'a str) -> Boxed<'a, bool>;

    /// Samples again. Harmless where it does already.
    fn resume(&self) -> Boxed<'_, ()>;

    /// Gives its memory to others; it must have no sample in work.
    fn sleep(&self, level: SleepLevel) -> Boxed<'_, ()>;

    /// Takes its memory back. Harmless where it has it.
    fn wake(&self, what: Wake) -> Boxed<'_, ()>;
}
