//! Evaluations of a run: when they are due, and their metrics lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{StepKind, WeightsRef};
use evenkeel_run::{EvaluatedBenchmark, MetricsLine, Quantity, RunDirectory, at_k, evaluation_folder};
use evenkeel_trust::SamplerAudit;

use super::trust::{RunLearner, evaluation_values};
use crate::error::{Halt, RunError};
use crate::evaluation::{AuditedAnswers, Benchmarks, EvaluationTarget, advice, evaluate, write_scores};
use crate::events::Event;
use crate::instruments::{self, TimedPart};
use crate::rollout::RolloutContext;

/// Evaluates the policy on held-out problems and benchmarks.
pub(super) struct Evaluator {
    rollouts: Arc<RolloutContext>,
    benchmarks: Benchmarks,
    directory: RunDirectory,
    audit: Arc<SamplerAudit>,
    /// The metric by which the best checkpoint is kept; empty for none.
    keep_best: String,
    /// Whether none has been made yet, since this process began.
    is_first: AtomicBool,
}

impl Evaluator {
    pub(super) fn new(
        rollouts: Arc<RolloutContext>,
        benchmarks: Benchmarks,
        directory: RunDirectory,
        audit: Arc<SamplerAudit>,
        keep_best: &str,
    ) -> Self {
        let keep_best = keep_best.to_owned();
        Self { rollouts, benchmarks, directory, audit, keep_best, is_first: AtomicBool::new(true) }
    }

    /// Whether there is anything to evaluate weights with.
    pub(super) fn has_problems(&self) -> bool {
        !self.benchmarks.is_empty()
    }

    /// Evaluates the weights after `step` steps, which the engines have. Returns the line; `None` where a stop was
    /// requested meanwhile, which leaves the rest to the resumed run.
    #[tracing::instrument(name = "evaluation", skip(self, weights))]
    pub(super) async fn evaluate(&self, step: u64, weights: &WeightsRef) -> Result<Option<MetricsLine>, Halt> {
        let began = Instant::now();
        let asked = EvaluationTarget { step, weights: Some(weights.clone()), digest: weights.digest.clone() };
        self.directory.check_place()?;
        let folder = evaluation_folder(self.directory.path(), step);
        let mut audited = AuditedAnswers { choice: self.audit.answers(step), ..AuditedAnswers::default() };
        let scores = evaluate(&self.rollouts, &self.benchmarks, &asked, &folder, &mut audited).await?;
        let Some(scores) = scores else { return Ok(None) };
        let learner = RunLearner(self.rollouts.services().learner());
        let report = self.audit.evaluation(step, &audited.choice, &audited.taken, &learner).await?;
        let mut line = MetricsLine::new(StepKind::Evaluation, step, weights.version);
        write_scores(&mut line, &scores, began.elapsed());
        evaluation_values(&mut line, &report, audited.earlier);
        check_keep_best(&self.keep_best, &line).map_err(RunError::from)?;
        if let (true, Some(message)) = (self.is_first.swap(false, Ordering::Relaxed), advice(&scores)) {
            self.rollouts.services().events().emit(Event::Warning { message });
        }
        instruments::part_took(TimedPart::Evaluation, began.elapsed());
        Ok(Some(line))
    }
}

/// Refuses a best checkpoint by an accuracy where nobody says which answers are correct, and the reverse: none would
/// ever be kept.
fn check_keep_best(metric: &str, line: &MetricsLine) -> Result<(), FieldError> {
    let Some((benchmark, quantity, of)) = at_k::parse_core(metric) else { return Ok(()) };
    let (other, why) = match quantity {
        Quantity::Accuracy => (Quantity::Reward, "since nobody says which of its answers are correct"),
        Quantity::Reward => (Quantity::Accuracy, "since it is known which of its answers are correct"),
    };
    let instead = at_k::core(benchmark, other, of);
    let mean = |quantity| {
        EvaluatedBenchmark::all([line]).into_iter().any(|found| (found.name, found.quantity) == (benchmark, quantity))
    };
    if line.get(metric).is_some() || !mean(other) {
        return Ok(());
    }
    Err(FieldError::quoted("checkpoint.keep_best", metric, format!("{instead}, {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_checkpoint_is_kept_by_what_evaluations_have() {
        let line = |name: &str| {
            let mut line = MetricsLine::new(StepKind::Evaluation, 0, 0);
            line.set_named(name, 0.5);
            line
        };
        let check =
            |metric: &str, found: &str| check_keep_best(metric, &line(found)).map_err(|error| error.to_string());
        let (accuracy, reward) = ("val-core/a/acc/mean@1", "val-core/a/reward/mean@1");
        assert_eq!(check(accuracy, accuracy), Ok(()));
        assert_eq!(check(reward, reward), Ok(()));
        assert_eq!((check("", reward), check(accuracy, "val-core/b/reward/mean@1")), (Ok(()), Ok(())));
        let error = check(accuracy, reward).unwrap_err();
        assert!(
            error.ends_with("allowed: val-core/a/reward/mean@1, since nobody says which of its answers are correct"),
            "{error}"
        );
        assert!(check(reward, accuracy).is_err());
    }
}
