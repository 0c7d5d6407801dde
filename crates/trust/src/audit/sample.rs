//! What the audit takes from a complete group: its samples as they came from the engine, whatever their verdicts.

use std::collections::BTreeSet;

use evenkeel_seeds::Uniforms;

use crate::evidence::samples::AuditedToken;
use crate::scorer::{LearnerToken, PromptedResponse, SampledDistribution, SeededRun};

/// A complete group of samples, as the audit reads it.
pub trait AuditedGroup {
    /// Number of its prompt.
    fn prompt(&self) -> u64;

    /// How many sequences the sample of that number has: prompts with what engines have drawn after them. 0 where it
    /// could not be generated.
    fn sequences(&self, number: u32) -> u32;

    /// A sequence of the sample of that number, once for each engine that has drawn tokens of it; none where there is no
    /// such sequence.
    fn sample(&self, number: u32, sequence: u32) -> Vec<AuditedSample>;

    /// Whether one version of the weights has drawn all of its tokens.
    fn is_of_one_version(&self) -> bool;

    /// Whether each of its samples is there, and engines have drawn all tokens of it.
    fn is_whole(&self) -> bool;

    /// The answers that engines have drawn, in the order of their numbers.
    fn answers(&self) -> Vec<DrawnAnswer>;
}

/// An answer as an engine has drawn it.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnAnswer {
    /// Name of the engine that drew it, or its beginning.
    pub engine: String,
    /// The tokens, with the engine's log-probabilities.
    pub tokens: Vec<(u32, f64)>,
}

/// A sequence that the learner is to score.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditedSample {
    /// The engine that answers for it.
    pub engine: String,
    /// How the engine computes, by its name; empty if it names nothing.
    pub arithmetic: String,
    /// Tokens of the prompt.
    pub prompt: Vec<u32>,
    /// Tokens of the response.
    pub response: Vec<u32>,
    /// For each token of the response how that engine has drawn it; `None` where it has not.
    pub drawn: Vec<Option<DrawnToken>>,
    /// Seeds that the tokens were drawn with, if the engine names an arithmetic.
    pub seeded: Vec<SeededRun>,
    /// The first tokens of the response that are known to be drawn without the end tokens.
    pub early: usize,
}

/// How a token was drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DrawnToken {
    /// The engine's log-probability of it.
    pub log_probability: f32,
    /// Version of the weights that have drawn it.
    pub version: u64,
}

/// In what an engine differs from the learner, though both compute with the same arithmetic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Difference {
    /// The seed and the learner's logits give another token.
    Token {
        /// Position of the token in the response.
        token: usize,
        /// What the engine returned.
        returned: u32,
        /// Token id that the draw gives.
        drawn: u32,
    },
    /// The likeliest token was to be taken.
    Rank {
        /// Position of the token in the response.
        token: usize,
        /// The place of what the engine returned by the learner's probabilities.
        rank: u32,
    },
    /// The learner computes another log-probability.
    LogProbability {
        /// Place of the token in the response.
        token: usize,
        /// What the engine reported.
        reported: f32,
        /// What the learner computes.
        computed: f32,
    },
}

impl AuditedSample {
    /// The versions that have drawn tokens of it.
    pub(crate) fn versions(&self) -> BTreeSet<u64> {
        self.drawn.iter().flatten().map(|token| token.version).collect()
    }

    /// What the learner scores, and draws again `with_seeds`.
    pub(crate) fn prompted(&self, with_seeds: bool) -> PromptedResponse<'_> {
        let seeded = if with_seeds { &self.seeded[..] } else { &[] };
        PromptedResponse { prompt: &self.prompt, response: &self.response, seeded, early: self.early }
    }

    /// For each token of the response how many were drawn before it. Those that others put there do not count for
    /// `min_tokens`.
    fn drawn_before(&self) -> impl Iterator<Item = usize> {
        self.drawn.iter().scan(0, |drawn, token| Some(std::mem::replace(drawn, *drawn + usize::from(token.is_some()))))
    }

    /// The places of tokens that a version has drawn, but for the `first` that were drawn of the response, with the
    /// engine's log-probabilities.
    pub(crate) fn drawn_by(&self, version: u64, first: usize) -> impl Iterator<Item = (usize, f32)> {
        let tokens = self.drawn.iter().zip(self.drawn_before()).enumerate();
        tokens.filter(move |(_, (_, before))| *before >= first).filter_map(move |(at, (drawn, _))| {
            let drawn = drawn.filter(|drawn| drawn.version == version)?;
            Some((at, drawn.log_probability))
        })
    }

    /// The first token that a version has drawn in which an engine differs that computes as the learner does. Among the
    /// first `min_tokens` only the early ones are looked at: nobody knows which of the others could end the response.
    pub(crate) fn difference(&self, version: u64, min_tokens: usize, view: &[LearnerToken]) -> Option<Difference> {
        let tokens = self.response.iter().zip(&self.drawn).zip(view).enumerate().zip(self.drawn_before());
        let known = tokens.filter(|((token, _), before)| *token < self.early || *before >= min_tokens);
        known.map(|((token, ((id, drawn), learner)), _)| (token, *id, drawn, learner)).find_map(
            |(token, returned, drawn, learner)| {
                let reported = drawn.filter(|drawn| drawn.version == version)?.log_probability;
                let computed = learner.log_probability as f32;
                match learner.drawn.filter(|id| *id != returned) {
                    Some(drawn) => Some(Difference::Token { token, returned, drawn }),
                    None if reported.to_bits() != computed.to_bits() => {
                        Some(Difference::LogProbability { token, reported, computed })
                    }
                    None => None,
                }
            },
        )
    }

    /// The tokens that a version has drawn, but for the `first` that were drawn of the response. `view` is the learner's under that
    /// version; ties among equally likely tokens are broken by `uniforms`, of which each token takes the next.
    pub(crate) fn tokens(
        &self,
        version: u64,
        first: usize,
        view: &[LearnerToken],
        distribution: &SampledDistribution,
        uniforms: &mut impl FnMut() -> f64,
    ) -> Vec<AuditedToken> {
        let tokens = self.response.iter().zip(&self.drawn).zip(view).zip(self.drawn_before());
        let tokens = tokens.filter(|(_, before)| *before >= first);
        let temperature = f64::from(distribution.temperature);
        let of_version = tokens.filter_map(|(((id, drawn), learner), _)| {
            let drawn = drawn.filter(|drawn| drawn.version == version)?;
            let is_end = distribution.end_token_ids.contains(id);
            Some(AuditedToken::new(learner, *id, drawn.log_probability, is_end, uniforms(), temperature))
        });
        of_version.collect()
    }
}

/// Numbers that break ties, one after the other.
pub(crate) fn ties(mut uniforms: Uniforms) -> impl FnMut() -> f64 {
    let mut next = 0;
    move || {
        next += 1;
        uniforms.at(next)
    }
}
