//! What a checkpoint of the state is good for: the same run without what was in flight, and a run that goes its own way
//! from there.

use std::collections::{BTreeSet, VecDeque};

use super::{LoopState, Rules};

impl LoopState {
    /// Numbers of the prompts that are started and in no step that is done.
    pub(in crate::run) fn unfinished(&self) -> impl Iterator<Item = u64> {
        self.groups.keys().copied()
    }

    /// The first prompt that data order would skip, since order of completion has left it.
    pub(in crate::run) fn left_by_completion(&self) -> Option<u64> {
        self.prompts.with(self.unfinished()).left().next()
    }

    /// This run at its last whole step, with nothing in flight: what was is sampled again. `evaluated`: the steps whose
    /// evaluations are on the disk.
    pub(in crate::run) fn resumed(&self, evaluated: BTreeSet<u64>) -> Self {
        let published =
            self.published.iter().filter(|weights| weights.version() < self.version && weights.has_folder());
        Self { published: published.cloned().collect(), evaluated, ..self.at_rest() }
    }

    /// This run with nothing in flight.
    pub(in crate::run) fn at_rest(&self) -> Self {
        Self {
            step: self.step,
            version: self.version,
            prompts: self.prompts.with(self.unfinished()),
            published: self.published.clone(),
            evaluated: self.evaluated.clone(),
            ..Self::default()
        }
    }

    /// This state for a run that goes its own way from here: its first steps are sampled with the weights that it
    /// begins with.
    pub(in crate::run) fn forked(&self) -> Self {
        Self { published: VecDeque::new(), evaluated: BTreeSet::new(), ..self.at_rest() }
    }

    /// The first step that the rules need the weights of and whose weights are not named, with the step that it
    /// samples.
    pub(in crate::run) fn missing_weights(&self, rules: &Rules) -> Option<(u64, u64)> {
        let has = |step: u64| self.published.iter().any(|weights| weights.version() == self.version_of(step));
        let missing = (rules.needed_from(self.step)..self.step).find(|&step| !has(step))?;
        Some((missing, (missing + rules.lag + 1).max(self.step + 1)))
    }
}
