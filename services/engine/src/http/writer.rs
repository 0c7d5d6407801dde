//! The text and the log-probabilities of a sample, written as its tokens arrive.

use std::borrow::Cow;
use std::sync::Arc;

use super::logprobs::Logprobs;
use crate::finish::FinishReason;
use crate::sampling::SamplingParams;
use crate::scheduler::Output;
use crate::text::{CHARACTER_TOKENS, Tokenizer, Transcript};

/// Converts one sample's tokens to text, chunk by chunk.
pub(super) struct Writer {
    tokenizer: Option<Arc<Tokenizer>>,
    transcript: Option<Transcript>,
    tokens_as_ids: bool,
    logprobs: bool,
    /// Characters written so far.
    offset: usize,
    /// The last ids written, on which a token's text may depend.
    before: Vec<u32>,
}

impl Writer {
    pub(super) fn new(
        tokenizer: Option<&Arc<Tokenizer>>,
        prompt: &[u32],
        sampling: &SamplingParams,
        tokens_as_ids: bool,
    ) -> Self {
        let transcript = tokenizer.map(|tokenizer| Transcript::new(tokenizer.clone(), prompt, sampling));
        let logprobs = sampling.logprobs.is_some();
        Self { tokenizer: tokenizer.cloned(), transcript, tokens_as_ids, logprobs, offset: 0, before: Vec::new() }
    }

    /// Appends the next tokens of the sample.
    pub(super) fn push(&mut self, output: &Output) {
        let Some(transcript) = &mut self.transcript else { return };
        let ends = matches!(output.finish, Some(FinishReason::End | FinishReason::StopToken(_)));
        for (at, &id) in output.ids.iter().enumerate() {
            // The scheduler stops at the same token, since it processes the same tokens in the same way.
            transcript.push(id, ends && at + 1 == output.ids.len());
        }
    }

    /// The whole text so far.
    pub(super) fn text(&self) -> &str {
        self.transcript.as_ref().map_or("", Transcript::text)
    }

    /// The text since the last call, as far as later tokens cannot change it.
    pub(super) fn take_text(&mut self, ended: bool) -> &str {
        self.transcript.as_mut().map_or("", |transcript| transcript.take_text(ended))
    }

    /// The log-probabilities of the output's tokens.
    pub(super) fn logprobs(&mut self, output: &Output) -> Option<Logprobs> {
        if !self.logprobs {
            return None;
        }
        let count = output.ids.len();
        let mut found = Logprobs::with_capacity(count);
        let width = output.top.len().checked_div(count).unwrap_or(0);
        for (at, (&id, &logprob)) in output.ids.iter().zip(&output.logprobs).enumerate() {
            let token = self.token(id);
            let length = token.chars().count();
            let others = output.top[at * width..][..width].iter().filter(|&&(other, _)| other != id);
            let others = others.map(|&(other, logprob)| (self.token(other), logprob));
            found.push(self.offset, token, logprob, others);
            self.offset += length;
            self.before.push(id);
        }
        let old = self.before.len().saturating_sub(CHARACTER_TOKENS);
        self.before.drain(..old);
        Some(found)
    }

    fn token(&self, id: u32) -> Cow<'static, str> {
        match &self.tokenizer {
            Some(tokenizer) if !self.tokens_as_ids => tokenizer.shown(id, &self.before).into(),
            _ => format!("token_id:{id}").into(),
        }
    }
}
