//! When the phases of a sample began and ended.

use std::time::{Duration, Instant};

use crate::metrics::{FinishedSample, Metrics, Phases};

/// The timestamps of a sample so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timestamps {
    arrived: Instant,
    /// When the sample left the queue.
    started: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
}

impl Timestamps {
    pub(super) fn new(arrived: Instant) -> Self {
        Self { arrived, started: None, first_token: None, last_token: None }
    }

    /// The sample leaves the queue.
    pub(super) fn start(&mut self, now: Instant) {
        self.started = Some(now);
    }

    /// The sample drew a token, after a prompt of `prompt` tokens.
    pub(super) fn record_token(&mut self, metrics: &Metrics, prompt: usize, now: Instant) {
        match self.last_token.replace(now) {
            Some(last) => metrics.next_token(now - last),
            None => {
                self.first_token = Some(now);
                metrics.first_token(prompt, now - self.arrived);
            }
        }
    }

    /// The sample ended with `generated` tokens.
    pub(super) fn finished(&self, prompt: usize, generated: usize) -> FinishedSample {
        FinishedSample { prompt, generated, latency: self.arrived.elapsed(), phases: self.phases() }
    }

    /// From the arrival of the request to its start.
    pub(crate) fn queue(&self) -> Option<Duration> {
        Some(self.started? - self.arrived)
    }

    /// From its start to its first token.
    pub(crate) fn prefill(&self) -> Option<Duration> {
        Some(self.first_token? - self.started?)
    }

    /// From its first token to its latest.
    pub(crate) fn decode(&self) -> Option<Duration> {
        Some(self.last_token? - self.first_token?)
    }

    /// From its start to its latest token.
    pub(crate) fn inference(&self) -> Option<Duration> {
        Some(self.last_token? - self.started?)
    }

    /// All of these. `None` before the first token.
    fn phases(&self) -> Option<Phases> {
        Some(Phases {
            queue: self.queue()?,
            prefill: self.prefill()?,
            decode: self.decode()?,
            inference: self.inference()?,
        })
    }
}
