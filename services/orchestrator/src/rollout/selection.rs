//! Which groups make a step: in data order, whichever finished first.

use std::collections::BTreeMap;

use super::{Sample, SampledGroup};
use crate::instruments;
use crate::metrics::Statistics;

/// A step's groups as they are trained on.
#[derive(Debug)]
pub(crate) struct StepBatch {
    /// In the order in which they were sent.
    pub(crate) groups: Vec<SampledGroup>,
    /// Dynamic sampling was on.
    pub(crate) dynamic: bool,
    /// Prompts that were sampled.
    pub(crate) prompts_tried: u64,
    /// Zero-advantage groups that were dropped for good.
    pub(crate) dropped: Vec<SampledGroup>,
    /// Zero-advantage groups that filled the step up.
    pub(crate) filled_up: u64,
    /// Mean raw reward of everything that was sampled, kept or not.
    pub(crate) mean_reward_of_all: Option<f64>,
}

impl StepBatch {
    /// A step of these groups, `filled_up` of them without an advantage, in addition to those that were `dropped`.
    pub(crate) fn of(groups: Vec<SampledGroup>, dropped: Vec<SampledGroup>, dynamic: bool, filled_up: u64) -> Self {
        let samples = groups.iter().chain(&dropped).flat_map(SampledGroup::samples);
        let rewards = samples.filter_map(|sample| sample.rewards()).map(|rewards| rewards.raw);
        let mean_reward_of_all = Statistics::of(rewards).mean();
        let prompts_tried = (groups.len() + dropped.len()) as u64;
        Self { groups, dynamic, prompts_tried, dropped, filled_up, mean_reward_of_all }
    }

    /// Every sample that was drawn for it.
    pub(crate) fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.groups.iter().chain(&self.dropped).flat_map(SampledGroup::samples)
    }

    /// The oldest version that sampled a token of what is trained on. `None` where no sample has a token.
    pub(crate) fn oldest_version(&self) -> Option<u64> {
        self.groups.iter().filter_map(|group| group.versions().map(|versions| *versions.start())).min()
    }

    /// Counts its groups for Prometheus.
    pub(crate) fn record(&self) {
        let zero_advantage = self.groups.iter().filter(|group| group.is_zero_advantage()).count() as u64;
        instruments::groups("trained", self.groups.len() as u64 - zero_advantage);
        instruments::groups("trained_zero_advantage", zero_advantage);
        instruments::groups("dropped_zero_advantage", self.dropped.len() as u64);
    }
}

/// Fills a step: takes groups as they finish, tells how many prompts are needed in all, and releases groups in data order.
#[derive(Debug)]
pub(crate) struct StepSelection {
    dynamic: bool,
    /// Groups that make a step.
    target: u64,
    /// Prompts that may be tried.
    limit: u64,
    /// Zero-advantage groups among those that finished.
    zero_advantage: u64,
    /// Number of the first prompt, and of the next one in data order.
    first: u64,
    next: u64,
    /// Finished groups that wait for one before them.
    early: BTreeMap<u64, SampledGroup>,
    kept: Vec<SampledGroup>,
    dropped: Vec<SampledGroup>,
    filled_up: u64,
    reward_sum: f64,
    reward_count: u64,
}

impl StepSelection {
    /// `target` groups from prompt `first` of the data order on, of at most `limit` prompts; without `dynamic` all are kept.
    pub(crate) fn new(dynamic: bool, target: u64, limit: u64, first: u64) -> Self {
        Self {
            dynamic,
            target,
            limit: limit.max(target),
            zero_advantage: 0,
            first,
            next: first,
            early: BTreeMap::new(),
            kept: Vec::new(),
            dropped: Vec::new(),
            filled_up: 0,
            reward_sum: 0.0,
            reward_count: 0,
        }
    }

    /// Prompts to be in flight or finished by now. Every zero-advantage group needs a replacement, whatever its position: no sample is
    /// wasted, and which prompts are tried does not depend on timing.
    pub(crate) fn prompts_needed(&self) -> u64 {
        (self.target + self.zero_advantage).min(self.limit)
    }

    /// Adds a finished group. Returns the groups that are now next in data order and belong to the step, with their index in it.
    pub(crate) fn add(&mut self, group: SampledGroup) -> Vec<(u32, &mut SampledGroup)> {
        if self.dynamic && group.is_zero_advantage() {
            self.zero_advantage += 1;
        }
        self.early.insert(group.number(), group);
        let before = self.kept.len();
        while let Some(group) = self.early.remove(&self.next) {
            self.next += 1;
            for rewards in group.samples().iter().filter_map(|sample| sample.rewards()) {
                self.reward_sum += rewards.raw;
                self.reward_count += 1;
            }
            let keep = !self.dynamic || !group.is_zero_advantage();
            if keep { &mut self.kept } else { &mut self.dropped }.push(group);
        }
        // No prompt is left to try: fill the step up, so that its size stays what the settings say.
        if self.next - self.first == self.limit {
            let missing = self.target.saturating_sub(self.kept.len() as u64).min(self.dropped.len() as u64);
            self.filled_up = missing;
            self.kept.extend(self.dropped.drain(..missing as usize));
        }
        (before as u32..).zip(&mut self.kept[before..]).collect()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.kept.len() as u64 >= self.target
    }

    /// The step, and the number of the prompt that the next one begins with.
    pub(crate) fn finish(self) -> (StepBatch, u64) {
        let batch = StepBatch {
            groups: self.kept,
            dynamic: self.dynamic,
            prompts_tried: self.next - self.first,
            dropped: self.dropped,
            filled_up: self.filled_up,
            mean_reward_of_all: (self.reward_count > 0).then(|| self.reward_sum / self.reward_count as f64),
        };
        (batch, self.next)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_seeds::{Stream, rng};
    use rand::Rng;

    use super::*;
    use crate::rollout::group::tests::group;

    /// A group of two samples whose rewards differ or not.
    fn finished(number: u64, has_advantage: bool) -> SampledGroup {
        group(number, &[Some(1.0), Some(if has_advantage { 0.0 } else { 1.0 })])
    }

    /// Runs a selection with groups that finish in a random order; returns the kept numbers, filled up, dropped, and the next number.
    fn run(advantage: &[bool], dynamic: bool, target: u64, limit: u64, seed: u64) -> (Vec<u64>, u64, u64, u64) {
        let mut rng = rng(seed, Stream::PromptOrder { epoch: 0 });
        let mut selection = StepSelection::new(dynamic, target, limit, 0);
        let (mut in_flight, mut started, mut sent) = (Vec::new(), 0, Vec::new());
        while !selection.is_full() {
            while started < selection.prompts_needed() {
                in_flight.push(started);
                started += 1;
            }
            let number = in_flight.swap_remove(rng.random_range(0..in_flight.len()));
            let released = selection.add(finished(number, advantage[number as usize]));
            sent.extend(released.iter().map(|(index, group)| (*index, group.number())));
        }
        assert!(in_flight.is_empty(), "no sample is wasted");
        assert_eq!(sent.iter().map(|(index, _)| *index).collect::<Vec<_>>(), (0..target as u32).collect::<Vec<_>>());
        let (batch, next) = selection.finish();
        (sent.into_iter().map(|(_, number)| number).collect(), batch.filled_up, batch.dropped.len() as u64, next)
    }

    #[test]
    fn groups_are_taken_in_data_order_whichever_finishes_first() {
        for seed in 0..50 {
            assert_eq!(run(&[true; 6], false, 6, 6, seed), ((0..6).collect(), 0, 0, 6));
        }
    }

    #[test]
    fn dynamic_sampling_drops_zero_advantage_groups() {
        let advantage = [false, true, true, false, false, true, true, true, true];
        for seed in 0..50 {
            assert_eq!(run(&advantage, true, 4, 9, seed), (vec![1, 2, 5, 6], 0, 3, 7), "seed {seed}");
        }
    }

    #[test]
    fn a_step_is_filled_up_with_the_first_dropped_groups_at_the_limit() {
        let advantage = [false, true, false, false, true, false];
        for seed in 0..50 {
            assert_eq!(run(&advantage, true, 4, 6, seed), (vec![1, 4, 0, 2], 2, 2, 6), "seed {seed}");
        }
    }

    #[test]
    fn without_dynamic_sampling_zero_advantage_groups_stay() {
        assert_eq!(run(&[false, true, false], false, 3, 3, 1), (vec![0, 1, 2], 0, 0, 3));
    }
}
