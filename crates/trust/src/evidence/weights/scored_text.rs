//! What the learner says of a proof's tokens: their log-probabilities under the right weights, and under those that
//! suspicions suppose.

use std::collections::BTreeMap;
use std::time::Duration;

use super::suspicion::Suspicion;
use crate::scorer::TokenScores;

/// The tokens of a proof with the learner's scores.
#[derive(Debug, Clone)]
pub(crate) struct ScoredText {
    pub(crate) sequences: Vec<Vec<u32>>,
    /// Under the version's published tensors.
    pub(crate) learner: TokenScores,
    /// Under the weights that suspicions suppose.
    pub(crate) supposed: BTreeMap<Suspicion, TokenScores>,
    /// Why there are no scores under published tensors: those of the version are of the weights in memory then, and
    /// nothing is supposed.
    pub(crate) impossible: Option<String>,
    /// Time that scoring took.
    pub(crate) took: Duration,
}

impl ScoredText {
    /// Text with the learner's scores, and nothing supposed.
    pub(crate) fn new(sequences: Vec<Vec<u32>>, learner: TokenScores) -> Self {
        Self { sequences, learner, supposed: BTreeMap::new(), impossible: None, took: Duration::ZERO }
    }
}
