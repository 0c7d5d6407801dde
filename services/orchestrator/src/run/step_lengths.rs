//! What the order of completion did to lengths: those of the responses that a step took, and of those that it left.

use evenkeel_run::metric::table as metric;
use evenkeel_run::{MetricsLine, Statistics};

use crate::rollout::{Rollouts, Sample, SampledGroup};

/// Lengths of responses at the moment at which a step is full.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepLengths {
    /// Mean tokens of the responses that the step took.
    taken: Option<f64>,
    /// Mean tokens of the responses that had ended by then and are in no step.
    left: Option<f64>,
    /// Complete groups that are in no step.
    waiting_groups: usize,
    /// Responses that had not ended.
    unfinished: usize,
    /// Groups of the step that later prompts of the data order overtook: these were in an earlier step.
    overtaken: u64,
}

impl StepLengths {
    pub(super) fn new<'a>(
        taken: &[SampledGroup],
        waiting: impl IntoIterator<Item = &'a SampledGroup>,
        rollouts: &Rollouts,
        overtaken: u64,
    ) -> Self {
        let waiting: Vec<_> = waiting.into_iter().collect();
        let left = waiting.iter().flat_map(|group| group.samples()).chain(rollouts.finished_samples());
        Self {
            taken: mean(taken.iter().flat_map(SampledGroup::samples)),
            left: mean(left),
            waiting_groups: waiting.len(),
            unfinished: rollouts.unfinished_samples(),
            overtaken,
        }
    }

    /// Adds its values to the metrics line of a step.
    pub(super) fn add_to(&self, line: &mut MetricsLine) {
        line.set(metric::TAKEN_LENGTH, self.taken);
        line.set(metric::LEFT_LENGTH, self.left);
        line.set(metric::WAITING_GROUPS, self.waiting_groups as f64);
        line.set(metric::UNFINISHED_ANSWERS, self.unfinished as f64);
        line.set(metric::OVERTAKEN_GROUPS, self.overtaken as f64);
    }
}

fn mean<'a>(samples: impl Iterator<Item = &'a Sample>) -> Option<f64> {
    Statistics::of(samples.filter(|sample| sample.is_generated()).map(|sample| sample.tokens as f64)).mean()
}
