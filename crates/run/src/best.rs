//! The best checkpoint of a run: which one it is, and that it stays.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::RunFilesError;
use crate::layout::BEST_FILE;
use crate::metrics::MetricsLine;
use crate::whole_file::replace_json;

/// Whether an evaluation is verified.
const VERIFIED: &str = "sampler_audit/evaluation_verified";

/// `best.json`: the checkpoint with the highest value of `checkpoint.keep_best`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    pub metric: String,
    /// The value of the metric.
    pub value: f64,
    /// GRPO steps done: the checkpoint's number.
    pub step: u64,
    /// Version of the weights: the published folder's number.
    pub policy_version: u64,
    /// The checkpoint, as the learner sees it.
    pub checkpoint: String,
    /// The published weights, likewise.
    pub weights: String,
    /// Whether answers of the evaluation were audited and none was found wrong.
    #[serde(default)]
    pub verified: bool,
}

/// Knows the best checkpoint, and notices a better one.
#[derive(Debug)]
pub struct BestKeeper {
    /// Empty: none is kept.
    metric: String,
    file: PathBuf,
    best: Option<Best>,
}

impl BestKeeper {
    /// Keeps the best checkpoint of a run by a metric; none where that is empty.
    pub fn new(metric: &str, directory: &Path) -> Self {
        Self { metric: metric.to_owned(), file: directory.join(BEST_FILE), best: None }
    }

    /// Reads what was the best before a run was resumed at `step`. A best checkpoint after `step` no longer counts: its
    /// steps are repeated.
    pub fn restore(&mut self, step: u64) {
        let read = std::fs::read_to_string(&self.file).ok().and_then(|text| serde_json::from_str::<Best>(&text).ok());
        self.best = read.filter(|best| best.metric == self.metric && best.step <= step);
    }

    /// The value of an evaluation, where it is higher than that of every checkpoint that is kept.
    pub fn improvement(&self, evaluation: Option<&MetricsLine>) -> Option<f64> {
        let value = evaluation?.get(&self.metric)?;
        self.best.as_ref().is_none_or(|best| value > best.value).then_some(value)
    }

    /// Whether the answers of an evaluation were audited and none was found wrong.
    pub fn is_verified(evaluation: Option<&MetricsLine>) -> bool {
        evaluation.is_some_and(|line| line.get(VERIFIED) == Some(1.0))
    }

    /// A better checkpoint is on the disk.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn set(&mut self, best: Best) -> Result<(), RunFilesError> {
        replace_json(&self.file, &best)?;
        self.best = Some(best);
        Ok(())
    }

    /// The metric; empty for none.
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// The best one, which the learner is to keep.
    pub fn best(&self) -> Option<&Best> {
        self.best.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::StepKind;

    use super::*;

    fn line(step: u64, value: f64) -> MetricsLine {
        let mut line = MetricsLine::new(StepKind::Evaluation, step, step);
        line.set_named("acc", value);
        line
    }

    fn best(step: u64, value: f64) -> Best {
        let checkpoint = format!("/c/step-{step}");
        let weights = format!("/w/step-{step}");
        Best { metric: "acc".into(), value, step, policy_version: step, checkpoint, weights, verified: true }
    }

    #[test]
    fn the_first_of_equal_checkpoints_stays_the_best() {
        let dir = tempfile::tempdir().unwrap();
        let mut keeper = BestKeeper::new("acc", dir.path());
        assert_eq!(keeper.improvement(Some(&line(0, 0.0))), Some(0.0), "any is better than none");
        keeper.set(best(0, 0.5)).unwrap();
        assert_eq!(keeper.improvement(Some(&line(20, 0.5))), None);
        assert_eq!(keeper.improvement(Some(&line(20, 0.6))), Some(0.6));
        assert_eq!(keeper.improvement(None), None);
        let mut verified = line(20, 0.6);
        assert!(!BestKeeper::is_verified(Some(&verified)));
        verified.set_named(VERIFIED, 1.0);
        assert!(BestKeeper::is_verified(Some(&verified)));
    }

    #[test]
    fn a_resumed_run_knows_it_unless_its_step_is_repeated_or_the_metric_is_another() {
        let dir = tempfile::tempdir().unwrap();
        BestKeeper::new("acc", dir.path()).set(best(20, 0.5)).unwrap();
        let restored = |metric: &str, step: u64| {
            let mut keeper = BestKeeper::new(metric, dir.path());
            keeper.restore(step);
            keeper.best().cloned()
        };
        assert_eq!(restored("acc", 20), Some(best(20, 0.5)));
        assert_eq!((restored("acc", 19), restored("other", 20)), (None, None));
    }
}
