//! Which groups make a step: in data order, whatever the order of their ends.

use std::collections::BTreeMap;

use super::{Plan, SampledGroup};

/// A step's groups as they are trained on.
#[derive(Debug)]
pub(crate) struct StepBatch {
    /// In the order in which they were sent.
    pub(crate) groups: Vec<SampledGroup>,
    /// Dynamic sampling was on.
    pub(crate) dynamic: bool,
    /// Prompts that were sampled.
    pub(crate) tried: u64,
    /// Groups without signal that were dropped and not taken back.
    pub(crate) dropped: u64,
    /// Groups without signal that filled the step up.
    pub(crate) filled_up: u64,
    /// Mean raw reward of all that was sampled, kept or not.
    pub(crate) score_of_all: Option<f64>,
}

/// Fills a step. Feed it groups as they end; it says how many prompts are to be launched in all, and releases groups in data order.
#[derive(Debug)]
pub(crate) struct Selection {
    dynamic: bool,
    /// Groups that make a step.
    wanted: u64,
    /// Prompts that may be tried.
    limit: u64,
    /// Groups without signal among those that ended.
    blank: u64,
    /// Place of the next group in data order.
    next: u64,
    first: u64,
    ended: BTreeMap<u64, SampledGroup>,
    kept: Vec<SampledGroup>,
    dropped: Vec<SampledGroup>,
    filled_up: u64,
    score: (f64, u64),
}

impl Selection {
    /// `wanted` groups from place `first` of the data order on, of at most `limit` prompts; without `dynamic` all are kept.
    pub(crate) fn new(dynamic: bool, wanted: u64, limit: u64, first: u64) -> Self {
        Self {
            dynamic,
            wanted,
            limit: limit.max(wanted),
            blank: 0,
            next: first,
            first,
            ended: BTreeMap::new(),
            kept: Vec::new(),
            dropped: Vec::new(),
            filled_up: 0,
            score: (0.0, 0),
        }
    }

    /// Prompts to be in work or ended by now. A group without signal is sure to need another prompt, wherever it stands, so that
    /// nothing is ever sampled in vain and what is tried does not depend on timing.
    pub(crate) fn to_launch(&self) -> u64 {
        (self.wanted + self.blank).min(self.limit)
    }

    /// A group ended. Returns those that are now next in data order and make the step, with their index in it.
    pub(crate) fn end(&mut self, group: SampledGroup) -> Vec<(u32, &SampledGroup)> {
        if self.dynamic && !group.has_signal() {
            self.blank += 1;
        }
        self.ended.insert(group.plan.id.prompt, group);
        let before = self.kept.len();
        while let Some(group) = self.ended.remove(&self.next) {
            self.next += 1;
            for reward in group.samples.iter().filter_map(|sample| sample.rewards()) {
                self.score = (self.score.0 + reward.raw, self.score.1 + 1);
            }
            if !self.dynamic || group.has_signal() { &mut self.kept } else { &mut self.dropped }.push(group);
        }
        // No prompt is left to try: the step is filled up, so that its size stays what the settings say.
        if self.next - self.first == self.limit {
            let missing = self.wanted.saturating_sub(self.kept.len() as u64).min(self.dropped.len() as u64);
            self.filled_up = missing;
            self.kept.extend(self.dropped.drain(..missing as usize));
        }
        (before as u32..).zip(&self.kept[before..]).collect()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.kept.len() as u64 >= self.wanted
    }

    /// The step, and the place where the next one begins.
    pub(crate) fn finish(self) -> (StepBatch, u64) {
        let (sum, count) = self.score;
        let batch = StepBatch {
            groups: self.kept,
            dynamic: self.dynamic,
            tried: self.next - self.first,
            dropped: self.dropped.len() as u64,
            filled_up: self.filled_up,
            score_of_all: (count > 0).then(|| sum / count as f64),
        };
        (batch, self.next)
    }
}

/// A place of the data order as a plan of a group.
pub(crate) fn plan(purpose: evenkeel_proto::Purpose, step: u64, place: u64, prompt: &crate::data::Prompt) -> Plan {
    Plan {
        id: evenkeel_proto::GroupId { purpose, step, prompt: place },
        prompt_token_ids: std::sync::Arc::clone(&prompt.token_ids),
        task: prompt.task.clone(),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::{FinishReason, Outcome};
    use evenkeel_proto::{GroupId, Purpose};

    use super::*;
    use crate::rollout::group::{Judgement, Rewards, Sample};
    use evenkeel_tasks::random::Random;

    fn group(place: u64, signal: bool) -> SampledGroup {
        let id = GroupId { purpose: Purpose::Train, step: 0, prompt: place };
        let sample = |raw: f64| Sample {
            id: String::new(),
            segments: vec![],
            finish_reason: FinishReason::Stop,
            tokens: 1,
            judgement: Judgement::Valid { outcome: Outcome::Correct, rewards: Rewards { raw, shaped: raw } },
            verified_again: 0,
            begun_again: 0,
        };
        let plan =
            Plan { id, prompt_token_ids: vec![1].into(), task: evenkeel_tasks::Task::math([String::new()]).unwrap() };
        SampledGroup { plan, samples: vec![sample(1.0), sample(if signal { 0.0 } else { 1.0 })] }
    }

    /// Runs a selection with groups that end in a random order; returns kept places, filled up, and the next place.
    fn run(signal: &[bool], dynamic: bool, wanted: u64, limit: u64, seed: u64) -> (Vec<u64>, u64, u64, u64) {
        let mut random = Random::new(&[seed]);
        let mut selection = Selection::new(dynamic, wanted, limit, 0);
        let (mut in_work, mut launched, mut sent) = (Vec::new(), 0, Vec::new());
        while !selection.is_full() {
            while launched < selection.to_launch() {
                in_work.push(launched);
                launched += 1;
            }
            let place = in_work.swap_remove(random.below(in_work.len()));
            let released = selection.end(group(place, signal[place as usize]));
            sent.extend(released.iter().map(|(index, group)| (*index, group.plan.id.prompt)));
        }
        assert!(in_work.is_empty(), "nothing is sampled in vain");
        assert_eq!(sent.iter().map(|(index, _)| *index).collect::<Vec<_>>(), (0..wanted as u32).collect::<Vec<_>>());
        let (batch, next) = selection.finish();
        (sent.into_iter().map(|(_, place)| place).collect(), batch.filled_up, batch.dropped, next)
    }

    #[test]
    fn groups_are_taken_in_data_order_whatever_ends_first() {
        for seed in 0..50 {
            assert_eq!(run(&[true; 6], false, 6, 6, seed), ((0..6).collect(), 0, 0, 6));
        }
    }

    #[test]
    fn dynamic_sampling_takes_the_first_groups_with_signal() {
        let signal = [false, true, true, false, false, true, true, true, true];
        for seed in 0..50 {
            assert_eq!(run(&signal, true, 4, 9, seed), (vec![1, 2, 5, 6], 0, 3, 7), "seed {seed}");
        }
    }

    #[test]
    fn what_is_missing_at_the_limit_is_filled_up_with_the_first_dropped_groups() {
        let signal = [false, true, false, false, true, false];
        for seed in 0..50 {
            assert_eq!(run(&signal, true, 4, 6, seed), (vec![1, 4, 0, 2], 2, 2, 6), "seed {seed}");
        }
    }

    #[test]
    fn without_dynamic_sampling_blank_groups_stay() {
        assert_eq!(run(&[false, true, false], false, 3, 3, 1), (vec![0, 1, 2], 0, 0, 3));
    }
}
