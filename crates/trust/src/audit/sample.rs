//! What the audit takes from a complete group: its samples as they came from the engine, whatever their verdicts.

use std::collections::BTreeSet;

use evenkeel_seeds::Uniforms;

use crate::evidence::samples::AuditedToken;
use crate::scorer::{LearnerToken, PromptedResponse, SeededRun};

/// A complete group.
pub trait AuditedGroup {
    /// Number of its prompt.
    fn prompt(&self) -> u64;

    /// The sample of that number; `None` where it could not be generated.
    fn sample(&self, number: u32) -> Option<AuditedSample>;

    /// Whether one version of the weights has drawn all of its tokens.
    fn is_of_one_version(&self) -> bool;

    /// The answers that engines have drawn, in the order of their numbers.
    fn answers(&self) -> Vec<DrawnAnswer>;
}

/// An answer as an engine has drawn it.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnAnswer {
    /// The engine.
    pub engine: String,
    /// The tokens, with the engine's log-probabilities.
    pub tokens: Vec<(u32, f64)>,
}

/// A sample that the learner is to score.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditedSample {
    /// The engine that has drawn it.
    pub engine: String,
    /// How the engine computes, by its name; empty if it names nothing.
    pub arithmetic: String,
    /// Tokens of the prompt.
    pub prompt: Vec<u32>,
    /// Tokens of the response.
    pub response: Vec<u32>,
    /// For each token of the response how it was drawn; `None` where no engine has drawn it.
    pub drawn: Vec<Option<DrawnToken>>,
    /// With which seeds, where the engine has an arithmetic.
    pub seeded: Vec<SeededRun>,
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
        /// Its place in the response.
        token: usize,
        /// What the engine returned.
        returned: u32,
        /// What is drawn.
        drawn: u32,
    },
    /// The likeliest token was to be taken.
    Rank {
        /// Its place in the response.
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
        PromptedResponse { prompt: &self.prompt, response: &self.response, seeded }
    }

    /// The first token that a version has drawn, from the `first` of the response on, in which an engine differs that
    /// computes as the learner does.
    pub(crate) fn difference(&self, version: u64, first: usize, view: &[LearnerToken]) -> Option<Difference> {
        let tokens = self.response.iter().zip(&self.drawn).zip(view).enumerate().skip(first);
        tokens.map(|(token, ((id, drawn), learner))| (token, *id, drawn, learner)).find_map(
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

    /// The tokens that a version has drawn, from the `first` of the response on. `view` is the learner's under that
    /// version; ties among equally likely tokens are broken by `uniforms`, of which each token takes the next.
    pub(crate) fn tokens(
        &self,
        version: u64,
        first: usize,
        view: &[LearnerToken],
        ends: &[u32],
        uniforms: &mut impl FnMut() -> f64,
    ) -> Vec<AuditedToken> {
        let tokens = self.response.iter().zip(&self.drawn).zip(view).skip(first);
        let of_version = tokens.filter_map(|((id, drawn), learner)| {
            let drawn = drawn.filter(|drawn| drawn.version == version)?;
            Some(AuditedToken::new(learner, drawn.log_probability, ends.contains(id), uniforms()))
        });
        of_version.collect()
    }
}

/// Numbers that break ties, one after the other.
pub(crate) fn ties(mut uniforms: Uniforms, from: u64) -> impl FnMut() -> f64 {
    let mut next = from;
    move || {
        next += 1;
        uniforms.at(next)
    }
}
