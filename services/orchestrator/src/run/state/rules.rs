//! What the settings of a run decide about its order: nothing here depends on what happens.

use evenkeel_trust::AuditSchedule;

use crate::rollout::SegmentTokens;
use crate::settings::{EnginesWhileTraining, EvaluationSteps, LoopSettings, StepOrder};

/// The rules of a run. Steps count from 1, and the weights after step n are those of step n: a step is trained from the
/// weights of the step before it. A run begins at its `origin`: with step 1 after the weights of step 0, or later where
/// it is a fork.
#[derive(Debug, Clone, Default)]
pub(in crate::run) struct Rules {
    /// Which groups a step takes.
    pub(super) order: StepOrder,
    /// How many steps the weights that sample may be behind those that are trained.
    pub(super) lag: u64,
    /// Steps of the whole run.
    pub(super) steps: u64,
    /// The step that is done when the run begins.
    pub(super) origin: u64,
    /// Groups of a step.
    pub(super) groups: u64,
    /// Episodes of a group.
    pub(super) group_size: u32,
    /// Whether groups without an advantage are left out.
    pub(super) dynamic: bool,
    /// Prompts that a step may try then.
    pub(super) prompts_limit: u64,
    /// How many groups of a step, the last ones, begin with the next newer weights.
    pub(super) split: u64,
    /// Segments of a response at most, each by the next newer weights; 1 or more.
    pub(super) segments: u8,
    /// Segments that the generation service may have at once.
    pub(super) most_in_flight: usize,
    /// Which weights are evaluated. `None`: there is nothing to evaluate them with.
    pub(super) evaluations: Option<EvaluationSteps>,
    /// Whether a checkpoint waits for the evaluation of its weights, which decides whether it stays.
    pub(super) keeps_best: bool,
    /// Whether engines sleep while the learner trains, which then gets nothing before they do.
    pub(super) engines_sleep: bool,
    pub(super) audits: AuditSchedule,
}

/// The segments of the responses of a group: by the weights of so many steps after those that sample the first groups
/// of the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segments {
    /// Place of the first one.
    pub(super) first: u64,
    /// How many there are.
    pub(super) count: u8,
}

impl Rules {
    /// The rules that the settings make of a run which begins after step `origin`; `evaluates`: there are problems to
    /// evaluate on.
    pub(in crate::run) fn new(settings: &LoopSettings, origin: u64, evaluates: bool, audits: AuditSchedule) -> Self {
        let pipeline = &settings.pipeline;
        let sampling = &settings.sampling;
        Self {
            order: pipeline.order,
            lag: pipeline.max_lag.into(),
            steps: settings.run.steps,
            origin,
            groups: sampling.prompts_per_step.into(),
            group_size: sampling.group_size,
            dynamic: sampling.dynamic,
            prompts_limit: sampling.prompts_limit().max(sampling.prompts_per_step.into()),
            split: pipeline.split.into(),
            segments: SegmentTokens::new(settings).count(),
            most_in_flight: settings.services.max_rollouts.max(1),
            evaluations: evaluates.then(|| settings.evaluation.steps()),
            keeps_best: !settings.checkpoint.keep_best.is_empty(),
            engines_sleep: sampling.engines_while_training != EnginesWhileTraining::Awake,
            audits,
        }
    }

    /// Whether a step takes the next prompts of the data order, whichever finish first.
    pub(in crate::run) fn is_in_data_order(&self) -> bool {
        self.order == StepOrder::Data
    }

    /// Whether steps are sampled while earlier ones are trained. Otherwise sampling and training alternate.
    pub(super) fn samples_ahead(&self) -> bool {
        self.lag > 0
    }

    /// Whether the weights of a step are evaluated.
    pub(super) fn is_evaluated(&self, step: u64) -> bool {
        self.evaluations.is_some_and(|evaluations| evaluations.is_due(step, self.steps))
    }

    /// Whether samples of a step may be audited.
    pub(super) fn is_audited(&self, step: u64) -> bool {
        let AuditSchedule { is_on, from, .. } = self.audits;
        is_on && step >= from
    }

    /// Places of the weights that sample a step, one after the other: 1 or more.
    pub(super) fn places(&self) -> u64 {
        u64::from(self.segments) + u64::from(self.split > 0)
    }

    /// The step whose weights sample at that place of a step, in data order.
    pub(super) fn sampled_by(&self, step: u64, place: u64) -> u64 {
        (step + place).saturating_sub(self.lag + 1).max(self.origin)
    }

    /// Whether the weights of step `by` sample anything of the steps from `from` on, in data order.
    pub(super) fn samples(&self, by: u64, from: u64) -> bool {
        let last = (by + self.lag + 1).min(self.steps);
        let first = if by <= self.origin { from } else { (by + self.lag + 2).saturating_sub(self.places()).max(from) };
        (first..=last).any(|step| (0..self.places()).any(|place| self.sampled_by(step, place) == by))
    }

    /// The segments of the group at that position of a step, from 0, in data order. A prompt beyond the groups of the
    /// step is tried in place of one that was left out, which shows late: the last weights sample it.
    pub(super) fn segments_of(&self, position: u64) -> Segments {
        if position >= self.groups {
            return Segments { first: self.places() - 1, count: 1 };
        }
        let first = u64::from(self.split > 0 && position >= self.groups - self.split);
        Segments { first, count: self.segments }
    }

    /// The earliest step whose weights a checkpoint after `step` steps needs, to sample the following steps again. In
    /// order of completion they are sampled by those of the checkpoint.
    pub(super) fn needed_from(&self, step: u64) -> u64 {
        match self.order {
            StepOrder::Data => self.sampled_by(step + 1, 0).min(step),
            StepOrder::Completion => step,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(lag: u64, origin: u64, split: u64, segments: u8) -> Rules {
        Rules { lag, origin, split, segments, steps: 9, groups: 4, ..Rules::default() }
    }

    #[test]
    fn a_step_is_sampled_by_the_weights_of_lag_steps_before_those_that_it_trains_and_not_by_those_before_the_origin() {
        let oldest_versions = |lag, origin, place| {
            let rules = rules(lag, origin, 1, 1);
            (origin + 1..=9).map(|step| rules.sampled_by(step, place)).collect::<Vec<_>>()
        };
        assert_eq!(oldest_versions(0, 0, 0), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(oldest_versions(1, 0, 0), [0, 0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(oldest_versions(1, 0, 1), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(oldest_versions(2, 5, 0), [5, 5, 5, 6]);
        assert_eq!(oldest_versions(2, 5, 1), [5, 5, 6, 7]);
    }

    #[test]
    fn a_checkpoint_needs_the_weights_between_those_of_its_next_step_and_its_own() {
        let needed = |lag, step| (rules(lag, 1, 0, 1).needed_from(step)..step).collect::<Vec<_>>();
        assert_eq!((needed(0, 5), needed(2, 5), needed(2, 2)), (vec![], vec![3, 4], vec![1]));
    }

    #[test]
    fn weights_are_needed_where_any_segment_of_the_steps_that_are_left_is_theirs() {
        for (lag, origin, places, from) in (0..4).flat_map(|lag| {
            let of_lag = move |origin| (1..=lag + 1).map(move |places| (lag, origin, places));
            (0..3)
                .flat_map(of_lag)
                .flat_map(|(lag, origin, places)| (origin + 1..=9).map(move |from| (lag, origin, places, from)))
        }) {
            let rules = rules(lag, origin, 0, places as u8);
            for by in 0..=9 {
                let all = (from..=9).flat_map(|step| (0..places).map(move |place| (step, place)));
                let is_needed = all.into_iter().any(|(step, place)| rules.sampled_by(step, place) == by);
                assert_eq!(rules.samples(by, from), is_needed, "{lag} {origin} {places} {from} {by}");
            }
        }
    }

    #[test]
    fn a_split_leaves_the_last_groups_and_replacements_to_the_later_weights_and_long_responses_go_through_several() {
        let segments = |split, count, positions: std::ops::Range<u64>| {
            let rules = rules(3, 0, split, count);
            positions.map(|position| rules.segments_of(position)).map(|all| (all.first, all.count)).collect::<Vec<_>>()
        };
        assert_eq!(segments(0, 1, 0..6), vec![(0, 1); 6]);
        assert_eq!(segments(1, 1, 2..6), vec![(0, 1), (1, 1), (1, 1), (1, 1)]);
        assert_eq!(segments(0, 3, 3..5), vec![(0, 3), (2, 1)]);
        assert_eq!(segments(1, 2, 2..5), vec![(0, 2), (1, 2), (2, 1)]);
    }
}
