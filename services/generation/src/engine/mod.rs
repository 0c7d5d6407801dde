//! What the service needs of an inference engine: sampling, probes, and weight updates step by step.
//!
//! A protocol is a folder here with an [`EngineClient`], and its [`EngineProtocol`] in [`PROTOCOLS`]. Rules elsewhere
//! ask what [`EngineInfo`] says that an engine can do, and never which protocol it speaks. The steps are those of
//! servers that load weights or adapters from a folder; broadcasts and other servers' routes (SGLang) fit as well.

mod error;
mod http;
mod protocol;
mod registry;
mod request_id;
mod tensors;
mod validate;
mod vllm;

use evenkeel_proto::SamplingSettings;
use evenkeel_proto::v1::{LogProbabilityMode, SleepLevel};
use evenkeel_rpc::BoxFuture;

pub use error::{EngineClientError, EngineFault};
pub use protocol::{EngineProtocol, MakeClient};
pub use registry::PROTOCOLS;
pub(crate) use registry::find as find_protocol;
pub(crate) use request_id::opaque_request_id;
pub use tensors::{UnreadTensor, WorkerTensor, WorkerTensors};
pub use validate::{validate, validate_tokens};
pub use vllm::WORKER_EXTENSION;

/// The future of a trait object's method.
pub type Boxed<'a, T> = BoxFuture<'a, Result<T, EngineClientError>>;

/// A request for one sample.
#[derive(Debug, Clone, Copy)]
pub struct SampleRequest<'a> {
    /// Random, another one for each request: `opaque_request_id`.
    pub request_id: &'a str,
    /// The prompt and the response so far.
    pub token_ids: &'a [u32],
    /// Settings for the tokens to come; `max_tokens` fits the context.
    pub sampling: &'a SamplingSettings,
    /// The adapter to sample from, by its name; `None`: the model itself.
    pub adapter: Option<&'a str>,
    /// Salt of cached prefixes: one for each weights version, so that no prefix outlives its weights.
    pub cache_salt: &'a str,
    /// W3C traceparent, where spans are exported.
    pub traceparent: Option<&'a str>,
    /// Token by token rather than at the end.
    pub stream: bool,
}

/// Sampled tokens, each with its log-probability.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampledTokens {
    ids: Vec<u32>,
    log_probabilities: Vec<f32>,
}

impl SampledTokens {
    pub fn push(&mut self, id: u32, log_probability: f32) {
        self.ids.push(id);
        self.log_probabilities.push(log_probability);
    }

    /// The number of tokens.
    pub fn count(&self) -> usize {
        self.ids.len()
    }

    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    pub fn log_probabilities(&self) -> &[f32] {
        &self.log_probabilities
    }

    /// Keeps the first `count` of them.
    pub fn truncate(&mut self, count: usize) {
        self.ids.truncate(count);
        self.log_probabilities.truncate(count);
    }

    pub fn clear(&mut self) {
        self.truncate(0);
    }
}

/// Why an engine stopped sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleFinish {
    /// End of sequence, or a stop token.
    Stop,
    /// `max_tokens` or the context.
    Length,
    /// The policy repeated itself.
    Repetition,
    /// The engine aborted it.
    Aborted,
}

impl SampleFinish {
    pub const ALL: [Self; 4] = [Self::Stop, Self::Length, Self::Repetition, Self::Aborted];

    /// As engines spell it in `finish_reason`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Repetition => "repetition",
            Self::Aborted => "abort",
        }
    }
}

#[derive(Debug, Clone)]
pub struct ScoreRequest<'a> {
    /// Each of at least two ids.
    pub sequences: &'a [Vec<u32>],
    /// Temperature of the token that is sampled after each sequence.
    pub temperature: f32,
    /// The adapter to score with, by its name; `None`: the model itself.
    pub adapter: Option<&'a str>,
    /// Salt of cached prefixes.
    pub cache_salt: &'a str,
}

/// The scores of a sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceScore {
    /// Log-probability of every token but the first, at temperature 1.
    pub log_probabilities: Vec<f32>,
    /// A token sampled after it, with its log-probability.
    pub sampled: (u32, f32),
}

/// How a sample ended, and how long its phases took in the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleOutcome {
    pub finish: SampleFinish,
    pub timings: EngineTimings,
}

/// Microseconds; 0 if the engine does not report them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineTimings {
    pub queue_us: u64,
    pub prefill_us: u64,
    pub decode_us: u64,
}

/// How an engine takes LoRA adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdapterSupport {
    /// Not at all, and what it lacks.
    Missing(&'static str),
    /// One at a time: a reload from a folder with an adapter computes it beside the model.
    Reloaded,
    /// Several at a time, each under its own name, while it goes on sampling.
    Named(AdapterLimits),
}

/// What an engine that takes adapters by name was started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdapterLimits {
    /// How many it computes at a time.
    pub live: usize,
    pub rank: usize,
    /// What raises it, for messages.
    pub rank_advice: &'static str,
    /// Whether scores of given tokens include an adapter of the head. Without that no version of one can be proven.
    pub scores_head: bool,
}

/// An adapter that an engine has under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedAdapter {
    pub name: String,
    /// The folder that it was read from.
    pub path: String,
}

/// What to change on an engine that lacks something, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineAdvice {
    /// How to enable the routes for weight updates.
    pub updates: &'static str,
    /// How to enable the routes for sleep.
    pub sleep: &'static str,
    /// How to enable processed log-probabilities.
    pub processed: &'static str,
}

/// What a probe finds out about an engine: what it serves, and what it can do.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineInfo {
    /// Name and version of the program, such as `vllm 0.32.0`.
    pub version: String,
    /// The name under which its model is served.
    pub model: String,
    /// The origin of its model as it reports it: a folder or a name.
    pub root: String,
    pub context_tokens: u32,
    /// Which distribution its log-probabilities refer to.
    pub log_probabilities: LogProbabilityMode,
    /// Whether it has the routes for weight updates.
    pub updates_weights: bool,
    /// Whether a reload from a folder without a tensor for the head of a tied model changes the head, too.
    pub takes_tied_head: bool,
    /// Support for LoRA adapters.
    pub adapters: AdapterSupport,
    /// Whether it answers with digests of its tensors.
    pub has_digests: bool,
    /// How it computes, by a name: a learner of that name has its log-probabilities to the bit. Empty if it names
    /// nothing.
    pub arithmetic: String,
    /// The lowest temperature above 0 that it samples at: it raises lower ones without saying so.
    pub min_temperature: f32,
    /// What to change on it.
    pub advice: EngineAdvice,
    /// Whether the engine was found paused or asleep: a weight update may have been interrupted.
    pub found_paused: bool,
}

/// An engine's own metrics of its load.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EngineMetrics {
    pub running: u64,
    /// Requests in the engine's queue.
    pub waiting: u64,
    /// Fraction of its cache in use, from 0 to 1.
    pub cache_usage: f64,
}

/// Which memory a sleeping engine takes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeTarget {
    /// Memory of the weights.
    Weights,
    /// Memory of the cache; the engine samples again then.
    Cache,
    /// All of it; it samples again then.
    All,
}

/// How a pause treats requests in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnginePause {
    /// Samples come back with the tokens that they have.
    Abort,
    Wait,
}

/// A client of one inference engine.
pub trait EngineClient: Send + Sync + 'static {
    fn endpoint(&self) -> &str;

    /// Connections for samples opened so far: an engine that restarted cannot be reached over an old one.
    fn connections(&self) -> u64;

    /// Everything that has to be known before the first sample, partly by drawing a tiny one.
    fn probe(&self) -> Boxed<'_, EngineInfo>;

    /// Whether it is up. A paused engine is.
    fn health(&self) -> Boxed<'_, ()>;

    /// Metrics of the engine's load. `None` if it has none.
    fn metrics(&self) -> Boxed<'_, Option<EngineMetrics>>;

    /// Whether it samples, by drawing a tiny sample.
    fn check_sampling(&self) -> Boxed<'_, ()>;

    /// Draws a sample. `tokens` is empty before, and always holds what has been received so far. A client calls
    /// [`validate`] on what it returns.
    fn sample<'a>(&'a self, request: SampleRequest<'a>, tokens: &'a mut SampledTokens) -> Boxed<'a, SampleOutcome>;

    /// Scores sequences, in their order.
    fn score<'a>(&'a self, request: ScoreRequest<'a>) -> Boxed<'a, Vec<SequenceScore>>;

    /// Digests of the tensors that it computes with, of each of its workers. Only of an engine that has them.
    fn tensors(&self) -> Boxed<'_, Vec<WorkerTensors>>;

    /// The label of its weights. `None` if it has no labels.
    fn weights_label(&self) -> Boxed<'_, Option<String>>;

    fn pause(&self, mode: EnginePause, clear_cache: bool) -> Boxed<'_, ()>;

    /// Loads weights from a folder, for as long as it takes.
    fn load_weights<'a>(&'a self, path: &'a str) -> Boxed<'a, ()>;

    /// The adapters that it has by name.
    fn adapters(&self) -> Boxed<'_, Vec<NamedAdapter>>;

    /// Loads an adapter from a folder under a name that it does not have yet, for as long as it takes. It goes on
    /// sampling meanwhile.
    fn load_adapter<'a>(&'a self, name: &'a str, path: &'a str) -> Boxed<'a, ()>;

    /// Forgets an adapter that nothing samples from. Harmless if it does not have it.
    fn unload_adapter<'a>(&'a self, name: &'a str) -> Boxed<'a, ()>;

    /// Sets the label of its weights. False if it has no labels.
    fn set_weights_label<'a>(&'a self, label: &'a str) -> Boxed<'a, bool>;

    /// Samples again. Harmless if it is not paused.
    fn resume(&self) -> Boxed<'_, ()>;

    /// Frees its memory. It must have no request in flight.
    fn sleep(&self, level: SleepLevel) -> Boxed<'_, ()>;

    /// Takes memory back. Harmless if it is awake.
    fn wake(&self, target: WakeTarget) -> Boxed<'_, ()>;
}
