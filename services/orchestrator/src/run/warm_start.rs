//! The supervised warm start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use evenkeel_proto::v1::{RunState, StepKind, SupervisedExample};
use evenkeel_run::MetricsLine;
use futures_util::future::try_join_all;

use super::journal::RunJournal;
use super::position::Position;
use super::run_context::RunContext;
use super::spans::record_warm_start_step;
use super::step_metrics::warm_start_values;
use super::training_steps::TrainingSteps;
use super::weight_sync::WeightSync;
use crate::clients::Services;
use crate::data::{Demonstrations, Encoder};
use crate::error::{Halt, RunError};
use crate::events::RunOutcome;
use crate::instruments::{self, TimedPart};
use crate::rollout::play_demonstration;
use crate::settings::{TurnsSettings, WarmStartSettings};

/// Demonstrations that are played at the same time.
const PLAYED_AT_ONCE: usize = 16;

/// Supervised steps on demonstrations before the first GRPO step.
pub(super) struct WarmStart {
    services: Arc<Services>,
    training: Arc<TrainingSteps>,
    weights: Arc<WeightSync>,
    settings: WarmStartSettings,
    turns: TurnsSettings,
    encoder: Encoder,
    /// `None` where there are no steps.
    demonstrations: Option<Demonstrations>,
}

impl WarmStart {
    pub(super) fn new(
        context: &RunContext,
        training: Arc<TrainingSteps>,
        weights: Arc<WeightSync>,
        encoder: Encoder,
        demonstrations: Option<Demonstrations>,
    ) -> Self {
        let settings = context.settings.warm_start.clone();
        let turns = context.settings.turns;
        Self { services: context.services(), training, weights, settings, turns, encoder, demonstrations }
    }

    /// Does the steps that remain. A stop between two of them keeps nothing: checkpoints are of GRPO steps.
    #[tracing::instrument(name = "warm_start", skip_all)]
    pub(super) async fn run(&self, position: &mut Position, journal: &mut RunJournal) -> Result<RunOutcome, Halt> {
        if position.warm_start_steps() >= self.settings.steps {
            return Ok(RunOutcome::Completed);
        }
        self.services.events().forget_samples();
        self.services.events().enter_phase(RunState::WarmStart);
        self.play().await?;
        self.weights.sleep_keeping_weights().await?;
        while position.warm_start_steps() < self.settings.steps {
            if self.services.stop().is_requested() {
                return Ok(RunOutcome::Stopped);
            }
            self.step(position, journal).await?;
        }
        Ok(RunOutcome::Completed)
    }

    #[tracing::instrument(name = "step", skip_all, fields(step = position.warm_start_steps() + 1))]
    async fn step(&self, position: &mut Position, journal: &mut RunJournal) -> Result<(), Halt> {
        let began = Instant::now();
        let step = position.warm_start_steps() + 1;
        let feed = self.training.supervised_step(position, &self.examples(step)?);
        let trace = self.training.warm_start_trace(step);
        let what = format!("warm-start step {step}");
        let report = trace.scope(self.training.train(&feed, &what)).await?;

        let mut line = MetricsLine::new(StepKind::WarmStart, step, report.version);
        warm_start_values(&mut line, &report, began.elapsed());
        journal.append(&line).await?;
        instruments::part_took(TimedPart::WarmStart, began.elapsed());
        record_warm_start_step(self.training.run_id(), step, report.version, trace, began.elapsed());
        position.finish_warm_start_step(report.version);
        self.services.events().at_step(position.step(), position.warm_start_steps());
        journal.announce(line);
        Ok(())
    }

    /// Plays the demonstrations that need an environment of a worker.
    async fn play(&self) -> Result<(), RunError> {
        let Some(demonstrations) = &self.demonstrations else { return Ok(()) };
        let all: Vec<_> = demonstrations.to_play().collect();
        let mut answers = BTreeMap::new();
        for some in all.chunks(PLAYED_AT_ONCE) {
            let played = some.iter().map(|&demonstration| async move {
                let name = &*demonstration.task.environment;
                let text = self.encoder.episodes.get(name);
                let text = text.ok_or_else(|| RunError::Defect(format!("the environment `{name}` is not prepared")))?;
                let played = play_demonstration(&self.services, self.turns, text, demonstration).await?;
                Ok::<_, RunError>((demonstration.index, played))
            });
            answers.extend(try_join_all(played).await?);
        }
        demonstrations.played(answers, &self.encoder)
    }

    fn examples(&self, step: u64) -> Result<Vec<SupervisedExample>, RunError> {
        let Some(demonstrations) = &self.demonstrations else { return Ok(Vec::new()) };
        let example = |row| {
            let example = demonstrations.at(step, row, &self.encoder)?;
            Ok(SupervisedExample {
                example_id: example.id,
                prompt_token_ids: example.prompt_token_ids,
                response_token_ids: example.response_token_ids,
            })
        };
        (0..self.settings.examples_per_step).map(example).collect()
    }
}
