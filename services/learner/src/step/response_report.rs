//! What a step did with each response.

use super::group_weights::GroupWeights;
use super::loss::ResponseStats;

/// What a step did with one response.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResponseReport {
    /// From the shaped rewards of its group; 0 for a response that is not valid.
    pub advantage: f64,
    /// What each of its trainable tokens counts in the loss of its last update, normalizer of the mini-batch included.
    pub weight: f64,
    /// Whether it went through the model in an update that was applied.
    pub trained: bool,
    /// Mean log-probability of its trainable tokens in its last update, under the weights before it, nats. Absent where
    /// it did not go through the model.
    pub logp: Option<f64>,
    /// Mean over the same tokens of exp(logp - old_logp). Absent likewise.
    pub ratio: Option<f64>,
}

/// The responses of a step by group, as far as its updates have come.
#[derive(Default)]
pub(super) struct ResponseReports(Vec<Vec<ResponseReport>>);

impl ResponseReports {
    /// Reports of groups that no update has taken.
    pub(super) fn of(groups: &[GroupWeights]) -> Self {
        let report = |advantage: &f64| ResponseReport { advantage: *advantage, ..ResponseReport::default() };
        Self(groups.iter().map(|group| group.advantages.iter().map(report).collect()).collect())
    }

    /// An update has taken these groups, with that normalizer, and these responses of them through the model.
    pub(super) fn update(
        &mut self,
        groups: &[GroupWeights],
        mini_batch: &[usize],
        normalizer: f64,
        passed: &[ResponseStats],
        is_applied: bool,
    ) {
        for &group in mini_batch {
            for (report, weight) in self.0[group].iter_mut().zip(&groups[group].weights) {
                report.weight = normalizer * weight;
            }
        }
        for stats in passed {
            let (group, index) = stats.place;
            let report = &mut self.0[group][index];
            let mean = |sum: f64| Some(sum / stats.policy.tokens as f64).filter(|mean| mean.is_finite());
            (report.logp, report.ratio) = (mean(stats.logp_sum), mean(stats.ratio_sum));
            report.trained |= is_applied;
        }
    }

    /// All reports, in the order of the groups.
    pub(super) fn finish(self) -> Vec<ResponseReport> {
        self.0.into_iter().flatten().collect()
    }
}
