//! One sample while it is being generated.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use evenkeel_model::decode::DecodeStep;
use evenkeel_model::sampling::{Drawn, LogprobsMode, NotFinite, Sampler, Score};
use evenkeel_model::{Decoder, KvCache, ModelError};
use evenkeel_seeds::{Stream, Uniforms};
use tokio::sync::mpsc;

use super::output::Output;
use super::timestamps::Timestamps;
use super::{Job, Permit};
use crate::finish::FinishReason;
use crate::metrics::Metrics;
use crate::text::{Stopped, Tokenizer, Transcript};

/// A sample that waits or is generated. Only its own methods change it.
pub(super) struct Sequence {
    job: Arc<Job>,
    index: usize,
    /// The random numbers by position, which depend on the seed of the sample only.
    uniforms: Uniforms,
    /// The prompt, then what was generated. Empty until it is admitted.
    ids: Vec<u32>,
    /// Keys and values of the first of them. `None` until it is admitted.
    cache: Option<KvCache>,
    /// Whether all of these come from the engine's present weights.
    is_current: bool,
    /// Whether another sequence computes keys and values that this one needs as well: it feeds nothing in the next
    /// step.
    waits: bool,
    /// Ids that the next step feeds.
    planned: usize,
    /// Whether the last step drew a token.
    drew: bool,
    finish: Option<FinishReason>,
    times: Timestamps,
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
        let times = Timestamps::new(job.arrived);
        Self {
            job,
            index,
            uniforms: Uniforms::new(seed, Stream::Tokens),
            ids: Vec::new(),
            cache: None,
            is_current: true,
            waits: false,
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
    pub(super) fn begin(&mut self, cache: KvCache, tokenizer: Option<&Arc<Tokenizer>>) {
        let sampling = &self.job.sampling;
        self.ids.reserve_exact(self.reserved());
        self.ids.extend_from_slice(&self.job.prompt);
        self.cache = Some(cache);
        self.times.start(Instant::now());
        if let Some(tokenizer) = tokenizer.filter(|_| !sampling.stop.is_empty()) {
            self.transcript = Some(Transcript::new(tokenizer.clone(), &self.job.prompt, sampling));
        }
    }

    /// Gives it an empty cache: its keys and values are computed again.
    pub(super) fn restart(&mut self, cache: KvCache) {
        self.cache = Some(cache);
        self.is_current = true;
    }

    /// Marks keys and values as computed with weights that have been replaced.
    pub(super) fn outdate(&mut self) {
        self.is_current = self.cached() == 0;
    }

    /// Whether it has begun, has no keys and values yet, and needs no logits of the tokens before its last.
    pub(super) fn may_take_keys(&self) -> bool {
        self.finish.is_none() && self.cached() == 0 && !self.ids.is_empty() && !self.job.sampling.prompt_logprobs
    }

    /// Number of tokens so far, the prompt's included.
    pub(super) fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// How many tokens another one begins with as this one does.
    pub(super) fn common(&self, other: &Self) -> usize {
        self.ids.iter().zip(&other.ids).take_while(|(own, other)| own == other).count()
    }

    /// Tokens of which it has keys and values for others.
    pub(super) fn ready(&self) -> usize {
        if self.is_current { self.cached() } else { 0 }
    }

    /// Whether it will soon have keys and values of more of its tokens: it feeds them as fast as any other would.
    pub(super) fn is_computing_prompt(&self) -> bool {
        self.is_current && self.finish.is_none() && self.pending() > 1 && !self.job.sampling.prompt_logprobs
    }

    /// A copy of the keys and values of its first tokens. `None` before it has begun.
    pub(super) fn keys(&self, decoder: &Decoder, tokens: usize) -> Option<Result<KvCache, ModelError>> {
        self.cache.as_ref().map(|cache| decoder.prefix(cache, tokens))
    }

    /// Takes over keys and values of its first tokens.
    pub(super) fn take_keys(&mut self, cache: KvCache) {
        self.cache = Some(cache);
    }

    /// Feeds nothing in the next step.
    pub(super) fn wait(&mut self) {
        self.waits = true;
    }

    /// Cache tokens that it may need: its maximum length.
    pub(super) fn reserved(&self) -> usize {
        self.job.prompt.len() + self.job.sampling.max_tokens
    }

    /// Whether it belongs to that request.
    pub(super) fn has_request_id(&self, id: &str) -> bool {
        *self.job.request_id == *id
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.job.cancelled.load(Ordering::Acquire)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.finish.is_some()
    }

    pub(super) fn sink(&self) -> mpsc::UnboundedSender<Output> {
        self.job.sink.clone()
    }

    /// Decides how many ids the next step feeds: one if it is decoding, at most `prefill` of a prompt. Returns what is
    /// left of `prefill`.
    pub(super) fn plan(&mut self, prefill: usize) -> usize {
        self.drew = false;
        if std::mem::take(&mut self.waits) {
            self.planned = 0;
            return prefill;
        }
        let pending = self.pending();
        if pending == 1 && self.generated() > 0 {
            self.planned = 1;
            return prefill;
        }
        // A prompt whose tokens are scored needs the logits after each of them.
        let max = if self.next_of_prompt().is_some() { 1 } else { prefill };
        self.planned = pending.min(prefill).min(max);
        prefill - self.planned
    }

    /// Ids that the next step feeds.
    pub(super) fn planned(&self) -> usize {
        self.planned
    }

    /// The sequence's part of the next step. `None` if it feeds nothing.
    pub(super) fn step(&mut self, mode: LogprobsMode) -> Option<DecodeStep<'_>> {
        let draws = self.pending() == self.planned;
        let cache = self.cache.as_mut().filter(|_| self.planned > 0)?;
        let from = cache.len();
        // Tokens of a prompt are scored by logits that nothing divides.
        let temperature = if draws { self.job.sampling.divisor(mode) } else { 1.0 };
        Some(DecodeStep { cache, ids: &self.ids[from..from + self.planned], temperature })
    }

    /// Draws the next token from the logits after what was fed. Nothing is drawn before the whole prompt has been fed;
    /// until then the prompt's own tokens are scored, if that was requested.
    pub(super) fn advance(&mut self, logits: &mut [f32], sampler: &mut Sampler, mode: LogprobsMode) {
        if self.pending() > 0 {
            if let Some(next) = self.next_of_prompt() {
                let score = sampler.score(logits, next);
                self.score_prompt(score);
            }
            return;
        }
        let generated = self.generated();
        let number = self.uniforms.at(generated as u64);
        let sampling = &self.job.sampling;
        let drawn = sampler.draw(logits, sampling.draw_options(generated, mode), number, &mut self.top);
        self.take(drawn);
    }

    /// Ends it, unless it has ended.
    pub(super) fn end(&mut self, finish: FinishReason) {
        self.finish.get_or_insert(finish);
    }

    /// Counts the token that the last step drew, if it drew one.
    pub(super) fn record_token(&mut self, metrics: &Metrics, now: Instant) {
        if self.drew {
            self.times.record_token(metrics, self.job.prompt.len(), now);
        }
    }

    /// Counts it as ended. One that has not ended was aborted.
    pub(super) fn record_end(&self, metrics: &Metrics) {
        let finish = self.finish.as_ref().unwrap_or(&FinishReason::Abort);
        metrics.finished(finish, self.times.finished(self.job.prompt.len(), self.generated()));
    }

    /// Keeps the score of the next token of the prompt. Recomputing the cache gives it again.
    fn score_prompt(&mut self, score: Result<Score, NotFinite>) {
        match score {
            Ok(score) => {
                let at = self.cached().saturating_sub(1);
                self.prompt_scores.resize(self.prompt_scores.len().max(at + 1), Score::default());
                self.prompt_scores[at] = score;
            }
            Err(error) => self.finish = Some(FinishReason::Error(error.to_string())),
        }
    }

    /// Appends a token, or the error of its draw, and determines whether it was the last.
    fn take(&mut self, drawn: Result<Drawn, NotFinite>) {
        let drawn = match drawn {
            Ok(drawn) => drawn,
            Err(error) => {
                self.finish = Some(FinishReason::Error(error.to_string()));
                return;
            }
        };
        self.drew = true;
        self.ids.push(drawn.id);
        let sampling = &self.job.sampling;
        self.logprobs.extend(drawn.logprob);
        self.finish = if Some(drawn.id) == sampling.eos_token_id {
            Some(FinishReason::End)
        } else if sampling.stop_token_ids.contains(&drawn.id) {
            Some(FinishReason::StopToken(drawn.id))
        } else if self.generated() >= sampling.max_tokens {
            // `max_tokens` was limited to the context when the request came.
            Some(FinishReason::Length)
        } else {
            None
        };
        let silent = matches!(self.finish, Some(FinishReason::End | FinishReason::StopToken(_)));
        if let Some(Stopped(stop)) = self.transcript.as_mut().and_then(|transcript| transcript.push(drawn.id, silent))
            && !silent
        {
            self.finish = Some(FinishReason::StopText(stop));
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
        let logprobs = std::mem::take(&mut self.logprobs);
        let top = std::mem::take(&mut self.top);
        let prompt = if self.finish.is_some() { std::mem::take(&mut self.prompt_scores) } else { Vec::new() };
        Some(Output { index: self.index, ids, logprobs, top, prompt, finish: self.finish.clone(), times: self.times })
    }

    /// Ids that are not in the cache yet: one if it is decoding, more if it begins or was reset.
    fn pending(&self) -> usize {
        self.ids.len() - self.cached()
    }

    fn cached(&self) -> usize {
        self.cache.as_ref().map_or(0, KvCache::len)
    }

    fn generated(&self) -> usize {
        self.ids.len().saturating_sub(self.job.prompt.len())
    }

    /// The token of the prompt that follows what is cached, if the prompt is scored.
    fn next_of_prompt(&self) -> Option<u32> {
        self.job.prompt.get(self.cached()).copied().filter(|_| self.job.sampling.prompt_logprobs)
    }
}
