//! One sample while it is being generated.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use evenkeel_model::SequenceCache;
use evenkeel_seeds::{Stream, Uniforms};
use tokio::sync::mpsc;

use super::{Job, Permit};
use crate::metrics::{Outcome, Times};
use crate::sampling::{Drawn, NotFinite, Sampling, Score};
use crate::text::{Stopped, Tokenizer, Transcript};

/// Why a sample ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The end of sequence.
    End,
    /// A token of the request or of the model's own list.
    StopToken(u32),
    /// A text of the request.
    StopText(String),
    /// `max_tokens`, or the end of the context.
    Length,
    /// It was aborted.
    Abort,
    /// The step failed, or its logits are not finite.
    Error(String),
}

impl Finish {
    /// The outcome in metrics.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::End | Self::StopToken(_) | Self::StopText(_) => Outcome::Stop,
            Self::Length => Outcome::Length,
            Self::Abort => Outcome::Abort,
            Self::Error(_) => Outcome::Error,
        }
    }
}

/// Tokens of one sample: all of them, or those since the last output.
#[derive(Debug)]
pub(crate) struct Output {
    /// Index of the sample in the request.
    pub(crate) index: usize,
    pub(crate) ids: Vec<u32>,
    /// Of each token, if requested.
    pub(crate) logprobs: Vec<f32>,
    /// The alternatives of each token, as many as the request asked for, most likely first.
    pub(crate) top: Vec<(u32, f32)>,
    /// Of each token of the prompt but the first, if requested; in the last output only.
    pub(crate) prompt: Vec<Score>,
    pub(crate) finish: Option<Finish>,
    /// Its timestamps so far.
    pub(crate) times: Times,
}

pub(super) struct Sequence {
    pub(super) job: Arc<Job>,
    pub(super) index: usize,
    /// The random numbers by position, which depend on the seed of the sample only.
    pub(super) uniforms: Uniforms,
    /// The prompt, then what was generated. Empty until it is admitted.
    pub(super) ids: Vec<u32>,
    /// Keys and values of the first of them. `None` until it is admitted.
    pub(super) cache: Option<SequenceCache>,
    /// Ids that the next step feeds.
    pub(super) planned: usize,
    /// Whether the last step drew a token.
    pub(super) drew: bool,
    pub(super) finish: Option<Finish>,
    pub(super) times: Times,
    logprobs: Vec<f32>,
    top: Vec<(u32, f32)>,
    prompt_scores: Vec<Score>,
    /// Generated tokens that have been output.
    reported: usize,
    transcript: Option<Transcript>,
    /// Held until the sample leaves the engine.
    _permit: Option<Permit>,
}

impl Sequence {
    pub(super) fn new(job: Arc<Job>, index: usize, seed: u64, permit: Option<Permit>) -> Self {
        let times = Times::new(job.arrived);
        Self {
            job,
            index,
            uniforms: Uniforms::new(seed, Stream::Tokens),
            ids: Vec::new(),
            cache: None,
            planned: 0,
            drew: false,
            finish: None,
            times,
            logprobs: Vec::new(),
            top: Vec::new(),
            prompt_scores: Vec::new(),
            reported: 0,
            transcript: None,
            _permit: permit,
        }
    }

    /// Prepares it to run.
    pub(super) fn begin(&mut self, cache: SequenceCache, tokenizer: Option<&Arc<Tokenizer>>) {
        let sampling = &self.job.sampling;
        self.ids.reserve_exact(self.reserved());
        self.ids.extend_from_slice(&self.job.prompt);
        self.cache = Some(cache);
        self.times.started = Some(Instant::now());
        if let Some(tokenizer) = tokenizer.filter(|_| !sampling.stop.is_empty()) {
            self.transcript = Some(Transcript::new(tokenizer.clone(), &self.job.prompt, sampling));
        }
    }

    /// Cache tokens that it may need: its maximum length.
    pub(super) fn reserved(&self) -> usize {
        self.job.prompt.len() + self.job.sampling.max_tokens
    }

    /// Ids that are not in the cache yet: one if it is decoding, more if it begins or was reset.
    pub(super) fn pending(&self) -> usize {
        self.ids.len() - self.cached()
    }

    pub(super) fn cached(&self) -> usize {
        self.cache.as_ref().map_or(0, SequenceCache::len)
    }

    pub(super) fn generated(&self) -> usize {
        self.ids.len().saturating_sub(self.job.prompt.len())
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.job.cancelled.load(Ordering::Acquire)
    }

    pub(super) fn sink(&self) -> mpsc::UnboundedSender<Output> {
        self.job.sink.clone()
    }

    pub(super) fn sampling(&self) -> &Sampling {
        &self.job.sampling
    }

    /// The buffer for the alternatives of a draw.
    pub(super) fn top_mut(&mut self) -> &mut Vec<(u32, f32)> {
        &mut self.top
    }

    /// Whether the next token of the prompt is to be scored before it is fed.
    pub(super) fn scores_prompt(&self) -> bool {
        self.job.sampling.scores_prompt && self.cached() < self.job.prompt.len()
    }

    /// The token of the prompt that follows what is cached.
    pub(super) fn next_of_prompt(&self) -> Option<u32> {
        self.job.prompt.get(self.cached()).copied().filter(|_| self.job.sampling.scores_prompt)
    }

    /// Keeps the score of that token. Recomputing the cache gives it again.
    pub(super) fn score_prompt(&mut self, score: Result<Score, NotFinite>) {
        match score {
            Ok(score) => {
                let at = self.cached().saturating_sub(1);
                self.prompt_scores.resize(self.prompt_scores.len().max(at + 1), Score::default());
                self.prompt_scores[at] = score;
            }
            Err(error) => self.finish = Some(Finish::Error(error.to_string())),
        }
    }

    /// Appends a token, or the error of its draw, and determines whether it was the last.
    pub(super) fn take(&mut self, drawn: Result<Drawn, NotFinite>) {
        let drawn = match drawn {
            Ok(drawn) => drawn,
            Err(error) => {
                self.finish = Some(Finish::Error(error.to_string()));
                return;
            }
        };
        self.drew = true;
        self.ids.push(drawn.id);
        let sampling = &self.job.sampling;
        if sampling.logprobs.is_some() {
            self.logprobs.push(drawn.logprob);
        }
        self.finish = if Some(drawn.id) == sampling.end {
            Some(Finish::End)
        } else if sampling.stop_ids.contains(&drawn.id) {
            Some(Finish::StopToken(drawn.id))
        } else if self.generated() >= sampling.max_tokens {
            // `max_tokens` was limited to the context when the request came.
            Some(Finish::Length)
        } else {
            None
        };
        let silent = matches!(self.finish, Some(Finish::End | Finish::StopToken(_)));
        if let Some(Stopped(stop)) = self.transcript.as_mut().and_then(|transcript| transcript.push(drawn.id, silent))
            && !silent
        {
            self.finish = Some(Finish::StopText(stop));
        }
    }

    /// The output that is due, if any.
    pub(super) fn output(&mut self) -> Option<Output> {
        let fresh = self.generated() - self.reported.min(self.generated());
        let due = match self.job.interval {
            _ if self.finish.is_some() => true,
            None => false,
            // The first token at once, the others in the requested interval.
            Some(interval) => fresh > 0 && (self.reported == 0 || fresh >= interval),
        };
        if !due {
            return None;
        }
        let ids = self.ids[self.ids.len() - fresh..].to_vec();
        self.reported += fresh;
        let (logprobs, top) = (std::mem::take(&mut self.logprobs), std::mem::take(&mut self.top));
        let prompt = if self.finish.is_some() { std::mem::take(&mut self.prompt_scores) } else { Vec::new() };
        Some(Output { index: self.index, ids, logprobs, top, prompt, finish: self.finish.clone(), times: self.times })
    }
}
