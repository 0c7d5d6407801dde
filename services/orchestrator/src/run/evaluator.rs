//! Evaluations of a run: when they are due, and their lines.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use evenkeel_proto::v1::{RunState, StepKind, WeightsRef};

use super::journal::RunJournal;
use super::position::Position;
use crate::clients::Services;
use crate::error::Halt;
use crate::evaluation::{Benchmarks, EvaluationTarget, evaluate, step_folder, write_scores};
use crate::instruments::{self, Phase};
use crate::metrics::MetricsLine;
use crate::rollout::RolloutContext;
use crate::settings::{EvaluationSettings, LoopSettings};

/// Evaluates the policy on held-out problems and benchmarks.
pub(super) struct Evaluator {
    services: Arc<Services>,
    rollouts: Arc<RolloutContext>,
    benchmarks: Benchmarks,
    settings: EvaluationSettings,
    directory: PathBuf,
    total_steps: u64,
}

impl Evaluator {
    pub(super) fn new(
        services: Arc<Services>,
        rollouts: Arc<RolloutContext>,
        benchmarks: Benchmarks,
        run: &LoopSettings,
        directory: PathBuf,
    ) -> Self {
        let (settings, total_steps) = (run.evaluation.clone(), run.run.steps);
        Self { services, rollouts, benchmarks, settings, directory, total_steps }
    }

    /// Evaluates where it is due and not done yet: before the first step, after the last, and every so many. Returns whether nothing is
    /// left to evaluate here; a stop that is requested meanwhile leaves the rest to the resumed run.
    pub(super) async fn run_if_due(
        &self,
        position: &Position,
        weights: &WeightsRef,
        journal: &mut RunJournal,
    ) -> Result<bool, Halt> {
        if !self.is_due(position.step()) || journal.has_evaluation(position.step()) {
            return Ok(true);
        }
        let events = self.services.events();
        events.at_step(position.step(), position.warm_start_steps());
        events.enter_phase(RunState::Evaluating);
        let Some(line) = self.evaluate(position.step(), weights).await? else { return Ok(false) };
        journal.append(&line).await?;
        journal.announce(line);
        Ok(true)
    }

    fn is_due(&self, step: u64) -> bool {
        let settings = &self.settings;
        let due = (settings.before && step == 0)
            || (settings.after && step == self.total_steps)
            || (settings.every > 0 && step > 0 && step.is_multiple_of(settings.every));
        due && !self.benchmarks.is_empty()
    }

    #[tracing::instrument(name = "evaluation", skip(self, weights))]
    async fn evaluate(&self, step: u64, weights: &WeightsRef) -> Result<Option<MetricsLine>, Halt> {
        let began = Instant::now();
        let asked = EvaluationTarget { step, weights: Some(weights.clone()), digest: weights.digest.clone() };
        let folder = step_folder(&self.directory, step);
        let Some(scores) = evaluate(&self.rollouts, &self.benchmarks, &asked, &folder).await? else { return Ok(None) };
        let mut line = MetricsLine::new(StepKind::Evaluation, step, weights.version);
        write_scores(&mut line, &scores, began.elapsed());
        instruments::phase(Phase::Evaluation, began.elapsed());
        Ok(Some(line))
    }
}
