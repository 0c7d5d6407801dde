//! Evaluations of a run: when they are due, and their metrics lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use evenkeel_proto::v1::{StepKind, WeightsRef};
use evenkeel_run::{MetricsLine, RunDirectory, evaluation_folder};

use crate::error::Halt;
use crate::evaluation::{Benchmarks, EvaluationTarget, advice, evaluate, write_scores};
use crate::events::Event;
use crate::instruments::{self, TimedPart};
use crate::rollout::RolloutContext;

/// Evaluates the policy on held-out problems and benchmarks.
pub(super) struct Evaluator {
    rollouts: Arc<RolloutContext>,
    benchmarks: Benchmarks,
    directory: RunDirectory,
    /// Whether none has been made yet, since this process began.
    is_first: AtomicBool,
}

impl Evaluator {
    pub(super) fn new(rollouts: Arc<RolloutContext>, benchmarks: Benchmarks, directory: RunDirectory) -> Self {
        Self { rollouts, benchmarks, directory, is_first: AtomicBool::new(true) }
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
        let Some(scores) = evaluate(&self.rollouts, &self.benchmarks, &asked, &folder).await? else { return Ok(None) };
        let mut line = MetricsLine::new(StepKind::Evaluation, step, weights.version);
        write_scores(&mut line, &scores, began.elapsed());
        if let (true, Some(message)) = (self.is_first.swap(false, Ordering::Relaxed), advice(&scores)) {
            self.rollouts.services().events().emit(Event::Warning { message });
        }
        instruments::part_took(TimedPart::Evaluation, began.elapsed());
        Ok(Some(line))
    }
}
