//! The groups of a step, as they are trained on.

use super::{Sample, SampledGroup};
use crate::instruments;

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
        let zero_advantage = self.groups.iter().filter(|group| group.teaches_nothing()).count() as u64;
        instruments::groups("trained", self.groups.len() as u64 - zero_advantage);
        instruments::groups("trained_zero_advantage", zero_advantage);
        instruments::groups("dropped_zero_advantage", self.dropped.len() as u64);
    }
}
