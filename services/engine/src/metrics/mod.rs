//! Metrics of one engine under vLLM's names. Several engines in a process have separate metrics.

mod histogram;
mod render;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_telemetry::{Series, Values};
use histogram::Histogram;

use crate::finish::FinishReason;

/// What the engine counts besides what vLLM does.
pub const SERIES: &[Series] = &[Series::counter(
    "evenkeel_engine_idle_seconds_total",
    "seconds in which there was nothing to compute, as of the last work",
)
.by(&[("engine", Values::Of(&["0"])), ("model_name", Values::Few("the engine's model"))])];

/// Seconds of a request's parts, from a short step to a long wait.
const REQUEST_SECONDS: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];
/// Seconds until the first token.
const FIRST_SECONDS: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
/// Seconds between tokens.
const TOKEN_SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0,
];
/// Tokens of a request, in 1, 2 and 5 of every power of ten.
const TOKENS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 50_000.0];
/// Tokens of a step.
const STEP_TOKENS: &[f64] =
    &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16_384.0];
/// Samples of a request.
const SAMPLES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0];

/// What a sequence that ended has taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FinishedSample {
    /// Tokens of its prompt.
    pub(crate) prompt: usize,
    /// Tokens that it generated.
    pub(crate) generated: usize,
    /// Time since its request arrived.
    pub(crate) latency: Duration,
    /// `None` if it generated nothing.
    pub(crate) phases: Option<Phases>,
}

/// How long the phases of a sequence took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phases {
    /// From its arrival to its start.
    pub(crate) queue: Duration,
    /// From its start to its first token.
    pub(crate) prefill: Duration,
    /// From its first token to its last.
    pub(crate) decode: Duration,
    /// From its start to its last token.
    pub(crate) inference: Duration,
}

/// The metrics of one engine. Lock-free: steps never wait for a scrape.
pub(crate) struct Metrics {
    model: String,
    cache_tokens: usize,
    started: f64,
    running: AtomicUsize,
    waiting: AtomicUsize,
    reserved: AtomicUsize,
    prefix_queries: AtomicU64,
    prefix_hits: AtomicU64,
    prompt_tokens: AtomicU64,
    generation_tokens: AtomicU64,
    preemptions: AtomicU64,
    finished: [AtomicU64; FinishReason::LABELS.len()],
    rejections: AtomicU64,
    /// Nanoseconds without work.
    idle: AtomicU64,
    request_prompt_tokens: Histogram,
    request_generation_tokens: Histogram,
    request_max_tokens: Histogram,
    request_samples: Histogram,
    step_tokens: Histogram,
    first_token: Histogram,
    between_tokens: Histogram,
    per_token: Histogram,
    whole: Histogram,
    queued: Histogram,
    inference: Histogram,
    prefill: Histogram,
    decode: Histogram,
}

impl Metrics {
    /// `started` is the Unix time in seconds at which counting began.
    pub(crate) fn new(model: String, cache_tokens: usize, started: f64) -> Self {
        Self {
            model,
            cache_tokens,
            started,
            running: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            prefix_queries: AtomicU64::new(0),
            prefix_hits: AtomicU64::new(0),
            prompt_tokens: AtomicU64::new(0),
            generation_tokens: AtomicU64::new(0),
            preemptions: AtomicU64::new(0),
            finished: Default::default(),
            rejections: AtomicU64::new(0),
            idle: AtomicU64::new(0),
            request_prompt_tokens: Histogram::new(TOKENS),
            request_generation_tokens: Histogram::new(TOKENS),
            request_max_tokens: Histogram::new(TOKENS),
            request_samples: Histogram::new(SAMPLES),
            step_tokens: Histogram::new(STEP_TOKENS),
            first_token: Histogram::new(FIRST_SECONDS),
            between_tokens: Histogram::new(TOKEN_SECONDS),
            per_token: Histogram::new(TOKEN_SECONDS),
            whole: Histogram::new(REQUEST_SECONDS),
            queued: Histogram::new(REQUEST_SECONDS),
            inference: Histogram::new(REQUEST_SECONDS),
            prefill: Histogram::new(REQUEST_SECONDS),
            decode: Histogram::new(REQUEST_SECONDS),
        }
    }

    /// Numbers of sequences, and the cache tokens reserved for them.
    pub(crate) fn state(&self, running: usize, waiting: usize, reserved: usize) {
        self.running.store(running, Ordering::Relaxed);
        self.waiting.store(waiting, Ordering::Relaxed);
        self.reserved.store(reserved, Ordering::Relaxed);
    }

    /// A request was admitted.
    pub(crate) fn admitted(&self, samples: usize, max_tokens: usize) {
        self.request_samples.record(samples as f64);
        for _ in 0..samples {
            self.request_max_tokens.record(max_tokens as f64);
        }
    }

    /// A request was rejected because the queue is full.
    pub(crate) fn rejected(&self) {
        self.rejections.fetch_add(1, Ordering::Relaxed);
    }

    /// A running sequence has to compute its keys and values again.
    pub(crate) fn preempted(&self) {
        self.preemptions.fetch_add(1, Ordering::Relaxed);
    }

    /// A sequence begins, without keys and values of its `tokens` tokens.
    pub(crate) fn began(&self, tokens: usize) {
        self.prefix_queries.fetch_add(tokens as u64, Ordering::Relaxed);
    }

    /// A sequence took keys and values of `tokens` tokens from another one.
    pub(crate) fn shared(&self, tokens: usize) {
        self.prefix_hits.fetch_add(tokens as u64, Ordering::Relaxed);
    }

    /// A step computed this many tokens.
    pub(crate) fn stepped(&self, tokens: usize) {
        self.step_tokens.record(tokens as f64);
    }

    /// The engine had nothing to compute for this time.
    pub(crate) fn idled(&self, time: Duration) {
        self.idle.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// A sequence drew its first token, that long after its arrival.
    pub(crate) fn first_token(&self, prompt: usize, latency: Duration) {
        self.generation_tokens.fetch_add(1, Ordering::Relaxed);
        self.prompt_tokens.fetch_add(prompt as u64, Ordering::Relaxed);
        self.first_token.record(latency.as_secs_f64());
    }

    /// A sequence drew another token, that long after the one before.
    pub(crate) fn next_token(&self, latency: Duration) {
        self.generation_tokens.fetch_add(1, Ordering::Relaxed);
        self.between_tokens.record(latency.as_secs_f64());
    }

    pub(crate) fn finished(&self, finish: &FinishReason, sample: FinishedSample) {
        let FinishedSample { prompt, generated, latency, phases } = sample;
        self.finished[finish.index()].fetch_add(1, Ordering::Relaxed);
        self.request_prompt_tokens.record(prompt as f64);
        self.request_generation_tokens.record(generated as f64);
        self.whole.record(latency.as_secs_f64());
        if let Some(Phases { queue, prefill, decode, inference }) = phases {
            self.queued.record(queue.as_secs_f64());
            self.inference.record(inference.as_secs_f64());
            self.prefill.record(prefill.as_secs_f64());
            let decode = decode.as_secs_f64();
            self.decode.record(decode);
            self.per_token.record(decode / (generated.max(2) - 1) as f64);
        }
    }
}
