//! Log-probabilities as vLLM writes them.

use evenkeel_model::sampling::Score;
use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::text::{CHARACTER_TOKENS, Tokenizer};

/// How vLLM writes a log-probability of minus infinity.
const MINUS_INFINITY: f64 = -9999.0;

/// The log-probabilities of a sample's tokens.
#[derive(Serialize)]
pub(super) struct Logprobs {
    text_offset: Vec<usize>,
    token_logprobs: Vec<f64>,
    tokens: Vec<Cow<'static, str>>,
    top_logprobs: Vec<Top>,
}

impl Logprobs {
    /// Without tokens yet, for that many.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self {
            text_offset: Vec::with_capacity(count),
            token_logprobs: Vec::with_capacity(count),
            tokens: Vec::with_capacity(count),
            top_logprobs: Vec::with_capacity(count),
        }
    }

    /// Appends a token whose text begins at that character, and the most likely others.
    pub(super) fn push(
        &mut self,
        text_offset: usize,
        token: Cow<'static, str>,
        logprob: f32,
        others: impl Iterator<Item = (Cow<'static, str>, f32)>,
    ) {
        let sampled = (token.clone(), written(logprob));
        let others = others.map(|(other, logprob)| (other, written(logprob)));
        self.top_logprobs.push(Top(std::iter::once(sampled).chain(others).collect()));
        self.text_offset.push(text_offset);
        self.token_logprobs.push(written(logprob));
        self.tokens.push(token);
    }
}

/// The log-probabilities of a prompt: null for the first token, then for each its own by its id.
pub(super) struct PromptLogprobs(Vec<(u32, PromptToken)>);

#[derive(Serialize)]
struct PromptToken {
    logprob: f64,
    rank: u32,
    decoded_token: Option<String>,
}

impl PromptLogprobs {
    pub(super) fn of(prompt: &[u32], scores: &[Score], tokenizer: Option<&Arc<Tokenizer>>) -> Self {
        let tokens = prompt.iter().enumerate().skip(1).zip(scores).map(|((at, &id), score)| {
            let decoded_token =
                tokenizer.map(|tokenizer| tokenizer.shown(id, &prompt[at.saturating_sub(CHARACTER_TOKENS)..at]));
            (id, PromptToken { logprob: written(score.logprob), rank: score.rank, decoded_token })
        });
        Self(tokens.collect())
    }
}

impl Serialize for PromptLogprobs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Token<'a>(&'a (u32, PromptToken));
        impl Serialize for Token<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(&self.0.0.to_string(), &self.0.1)?;
                map.end()
            }
        }
        let tokens = std::iter::once(None).chain(self.0.iter().map(|token| Some(Token(token))));
        serializer.collect_seq(tokens)
    }
}

/// Tokens and their log-probabilities, in order. Several ids may have the same text: like in a Python dictionary, the
/// last one's value appears in the first one's position.
struct Top(Vec<(Cow<'static, str>, f64)>);

impl Serialize for Top {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (at, (token, logprob)) in self.0.iter().enumerate() {
            if self.0[..at].iter().any(|(other, _)| other == token) {
                continue;
            }
            let last = self.0[at..].iter().rev().find(|(other, _)| other == token);
            map.serialize_entry(token, &last.map_or(*logprob, |(_, last)| *last))?;
        }
        map.end()
    }
}

fn written(logprob: f32) -> f64 {
    f64::from(logprob).max(MINUS_INFINITY)
}
