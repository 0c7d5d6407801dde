//! Whether engines have the learner's log-probabilities, where both compute with the same arithmetic.

use super::group_weights::{Place, PlannedResponse};
use crate::error::LearnerError;
use crate::group::Comparison;

/// A response whose log-probabilities are not the learner's, though they must be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) place: Place,
    /// The first token that differs, among the trainable ones.
    pub(super) token: usize,
    pub(super) reported: f32,
    pub(super) computed: f32,
    /// Tokens that differ.
    pub(super) differing: usize,
    /// Tokens that were compared.
    pub(super) tokens: usize,
}

impl Difference {
    /// Whichever response comes first in the data.
    pub(super) fn first(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        one.into_iter().chain(other).min_by_key(|difference| difference.place)
    }
}

impl From<Difference> for LearnerError {
    fn from(found: Difference) -> Self {
        let Difference { place: (group, index), token, reported, computed, differing, tokens } = found;
        Self::SampledOtherwise { group, index, token, reported, computed, differing, tokens }
    }
}

/// Compares what engines reported with what the learner has computed under the weights before the first update, bit by
/// bit. `logp`: of each response's trainable tokens. Returns the first response that differs.
pub(super) fn compare<'a>(
    responses: impl Iterator<Item = &'a PlannedResponse>,
    logp: impl Iterator<Item = &'a [f32]>,
) -> Option<Difference> {
    let of_response = |(response, logp): (&PlannedResponse, &'a [f32])| {
        let pairs = response.rollout_logp().iter().zip(logp).enumerate();
        let exact: Vec<_> = pairs.zip(response.comparisons()).filter(|(_, how)| **how == Comparison::Exact).collect();
        let differing = exact.iter().filter(|((_, (reported, computed)), _)| reported.to_bits() != computed.to_bits());
        let ((token, (&reported, &computed)), _) = *differing.clone().next()?;
        let (differing, tokens) = (differing.count(), exact.len());
        Some(Difference { place: response.place(), token, reported, computed, differing, tokens })
    };
    responses.zip(logp).find_map(of_response)
}

/// Trainable tokens that went through the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparedTokens {
    /// Tokens whose log-probabilities must be the learner's, and are.
    pub equal: usize,
    /// Others, and those that were not scored before the first update. Tokens that were drawn without the end tokens
    /// are neither.
    pub uncompared: usize,
}

impl ComparedTokens {
    /// Adds a group's responses, which are scored before the first update or not.
    pub(super) fn add(&mut self, planned: &[PlannedResponse], is_scored: bool) {
        for response in planned {
            let tokens = response.rollout_logp().len();
            let count = |wanted| response.comparisons().iter().filter(|how| **how == wanted).count();
            let equal = if is_scored { count(Comparison::Exact) } else { 0 };
            self.equal += equal;
            self.uncompared += tokens - equal - count(Comparison::Early);
        }
    }
}
