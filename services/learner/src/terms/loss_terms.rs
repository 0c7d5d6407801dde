//! All terms that settings turn on, as the rest of the learner knows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_objective::{Error, TermStats};
use evenkeel_run::metric::MetricName;
use serde_json::Value;

use super::{LossTerm, TermTokens, TokenShares};

/// The states of terms, by the settings that turn them on.
pub(crate) type TermStates = BTreeMap<String, Value>;

/// The terms of a training, in the order of their sums.
#[derive(Clone)]
pub(crate) struct LossTerms(Vec<Arc<dyn LossTerm>>);

impl LossTerms {
    /// The terms that are turned on.
    pub(crate) fn new(terms: impl IntoIterator<Item = Option<Arc<dyn LossTerm>>>) -> Self {
        Self(terms.into_iter().flatten().collect())
    }

    /// The terms with the states of a checkpoint.
    ///
    /// # Errors
    /// What is wrong with a state.
    pub(crate) fn with_states(self, states: &TermStates) -> Result<Self, String> {
        let with_state = |term: Arc<dyn LossTerm>| match states.get(term.setting()) {
            Some(state) => term.with_state(state),
            None => Ok(term),
        };
        Ok(Self(self.0.into_iter().map(with_state).collect::<Result<_, _>>()?))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn LossTerm> {
        self.0.iter().map(|term| &**term)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sums of each for one response, with its log-probabilities under the policy alone and those under the network
    /// of each term; derivatives are added to `gradient`.
    pub(crate) fn response(
        &self,
        shares: TokenShares,
        of_policy: TermTokens<'_>,
        other_logp: &[Vec<f32>],
        gradient: &mut [f32],
    ) -> Result<Vec<TermStats>, Error> {
        let terms = self.0.iter().zip(other_logp);
        let of_term = |(term, other_logp): (&Arc<dyn LossTerm>, &Vec<f32>)| {
            term.response(shares.get(term.share()), TermTokens { other_logp, ..of_policy }, gradient)
        };
        terms.map(of_term).collect()
    }

    /// What they report of a step, from the sums of each of its updates.
    pub(crate) fn metrics(&self, updates: &[Vec<TermStats>]) -> Vec<(MetricName, f64)> {
        self.with_sums(updates).flat_map(|(term, sums)| term.metrics(&sums)).collect()
    }

    /// Notes the end of a step in which these updates were applied.
    pub(crate) fn step_done(&mut self, applied: &[Vec<TermStats>]) {
        let next = |(term, sums): (&Arc<dyn LossTerm>, Vec<TermStats>)| {
            term.after_step(&sums).unwrap_or_else(|| Arc::clone(term))
        };
        self.0 = self.with_sums(applied).map(next).collect();
    }

    /// Each term with its sums in these updates.
    fn with_sums(&self, updates: &[Vec<TermStats>]) -> impl Iterator<Item = (&Arc<dyn LossTerm>, Vec<TermStats>)> {
        self.0.iter().enumerate().map(|(number, term)| (term, updates.iter().map(|sums| sums[number]).collect()))
    }

    /// What a checkpoint keeps of them.
    pub(crate) fn states(&self) -> TermStates {
        self.0.iter().filter_map(|term| Some((term.setting().to_owned(), term.state()?))).collect()
    }
}
