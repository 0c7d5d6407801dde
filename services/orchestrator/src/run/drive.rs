//! The loop from its first check to its last file.

use std::collections::BTreeMap;

use evenkeel_proto::v1::RunState;

use super::position::Position;
use crate::clients::{Services, Stop};
use crate::data::{Demonstrations, Order, Prompts};
use crate::directory::{Lines, RunDirectory};
use crate::error::{Halt, RunError};
use crate::events::{Event, Events, Outcome};
use crate::recipe::Recipe;
use crate::report;
use crate::summary::Summary;
use crate::text::Tokenizer;

/// How often the learner may lose the run at one and the same step.
const LOSSES_AT_A_STEP: u32 = 5;

/// A run and everything that it uses.
pub(super) struct Driver {
    pub(super) recipe: Recipe,
    pub(super) directory: RunDirectory,
    pub(super) services: Services,
    pub(super) events: Events,
    pub(super) stop: Stop,
    pub(super) tokenizer: Tokenizer,
    pub(super) prompts: Prompts,
    pub(super) demonstrations: Option<Demonstrations>,
    pub(super) order: Order,
    pub(super) metrics: Lines,
    pub(super) warm_starts: Lines,
    pub(super) evaluations: Lines,
    /// Of the learner; every training step names it.
    pub(super) settings_hash: Option<String>,
    pub(super) vocabulary_size: u32,
    /// Versions of the services, for the summary.
    pub(super) versions: BTreeMap<String, String>,
    /// The whole recipe as TOML.
    pub(super) config: String,
    /// The rule by which token terms are summed, for the summary.
    pub(super) aggregation: Option<String>,
    /// Kinds of tasks in the data.
    pub(super) task_kinds: Vec<evenkeel_tasks::TaskKind>,
    /// What a person should know before the run starts.
    pub(super) notes: Vec<String>,
    /// What is wrong with gold answers of the data.
    pub(super) unsound_golds: Option<String>,
}

impl Driver {
    /// Runs to the end, whichever it is.
    pub(super) async fn run(mut self) -> Result<(Outcome, Summary), RunError> {
        let result = self.go().await;
        let state = match &result {
            Ok(Outcome::Completed) => RunState::Completed,
            Ok(Outcome::Stopped) => RunState::Stopped,
            Err(_) => RunState::Failed,
        };
        let written = self.insist_on_summary(state, result.is_ok()).await;
        self.events.update(|progress| {
            let message = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
            (progress.state, progress.message) = (state, message);
        });
        let outcome = match (result, written) {
            (Ok(outcome), Ok(summary)) => Ok((outcome, summary)),
            (Ok(_), Err(error)) | (Err(error), _) => Err(error),
        };
        match &outcome {
            Ok((outcome, summary)) => {
                self.events.emit(Event::Finished { outcome: *outcome, summary: Box::new(summary.clone()) });
            }
            Err(error) => self.events.emit(Event::Failed { message: error.to_string() }),
        }
        outcome
    }

    async fn go(&mut self) -> Result<Outcome, RunError> {
        let mut back = self.directory.is_resumed();
        let (mut at, mut losses, mut lost, mut started) = (None, 0, None, false);
        loop {
            let message = match self.attempt(back, lost.take(), &mut started).await {
                Ok(outcome) => return Ok(outcome),
                Err(Halt::Stop) => return Ok(Outcome::Stopped),
                Err(Halt::Error(error)) => return Err(error),
                Err(Halt::LearnerLost(message)) => message,
            };
            let step = self.metrics.count();
            losses = if at == Some((step, self.warm_starts.count())) { losses + 1 } else { 1 };
            at = Some((step, self.warm_starts.count()));
            if losses >= LOSSES_AT_A_STEP {
                return Err(RunError::NoProgress { step, times: losses, message });
            }
            tracing::warn!(message, "the learner lost the run, going back to the last checkpoint");
            (back, lost) = (true, Some(message));
        }
    }

    /// From wherever the run is to its end, unless something is lost on the way. `lost` says why the attempt before ended.
    async fn attempt(&mut self, back: bool, lost: Option<String>, started: &mut bool) -> Result<Outcome, Halt> {
        self.check_services().await?;
        let mut position = if back { self.locate_checkpoint().await? } else { self.locate_beginning().await? };
        self.events.update(|progress| {
            (progress.step, progress.warm_start_step) = (position.step, position.warm_start_steps);
        });
        if !std::mem::replace(started, true) {
            self.tell_started(position.step);
        }
        if let Some(message) = lost {
            self.events.emit(Event::Rewound { step: position.step, message });
        }
        if self.recipe.run.steps < position.step {
            let allowed = format!("at least {}, the steps that are done", position.step);
            return Err(evenkeel_proto::FieldError::new("run.steps", self.recipe.run.steps, allowed).into());
        }
        if self.warm_start(&mut position).await? == Outcome::Stopped {
            return Ok(Outcome::Stopped);
        }
        let mut weights = self.switch(position.version).await?;
        let mut saved = None;
        loop {
            let done = position.step >= self.recipe.run.steps;
            self.evaluate_if_due(&position, &weights).await?;
            let stopping = !done && self.stop.is_requested();
            if stopping {
                self.events.enter(RunState::Stopping);
            }
            self.checkpoint_if_due(&position, done || stopping, back && saved.is_none()).await?;
            saved = Some(position.step);
            match (done, stopping) {
                (true, _) => return Ok(Outcome::Completed),
                (_, true) => return Ok(Outcome::Stopped),
                _ => {}
            }
            self.events.enter(RunState::Training);
            weights = self.step(&mut position, &weights).await?;
        }
    }

    /// Writes the summary. A run that has come to a good end waits for a full disk, one that failed says so at once.
    async fn insist_on_summary(&self, state: RunState, insist: bool) -> Result<Summary, RunError> {
        if !insist {
            return self.write_summary(state);
        }
        let path = self.directory.path().join("summary.json");
        let mut summary = None;
        let write = || self.write_summary(state).map(|written| summary = Some(written));
        match self.services.retrier.write(&path, write).await {
            Err(Halt::Error(error)) => Err(error),
            // A stop ends the waiting; what could not be written is the error then.
            Err(_) => self.write_summary(state),
            Ok(()) => summary.ok_or_else(|| RunError::Defect("the summary was not written".to_owned())),
        }
    }

    /// `summary.json` and `report.html`, of whatever there is.
    pub(super) fn write_summary(&self, state: RunState) -> Result<Summary, RunError> {
        let (metrics, warm, evaluations) = (self.metrics.read()?, self.warm_starts.read()?, self.evaluations.read()?);
        let aggregation = self.aggregation.as_deref();
        let summary = Summary::of(
            self.directory.run_id(),
            &self.recipe,
            aggregation,
            state,
            &metrics,
            &warm,
            &evaluations,
            &self.versions,
        );
        let json = serde_json::to_string_pretty(&summary).map_err(|error| RunError::Defect(error.to_string()))?;
        self.directory.replace("summary.json", &format!("{json}\n"))?;
        self.directory.replace("report.html", &report::page(&summary, &self.config, &metrics, &warm, &evaluations))?;
        Ok(summary)
    }

    pub(super) fn hash(&self) -> String {
        self.settings_hash.clone().unwrap_or_default()
    }

    pub(super) fn tell_position(&self, position: &Position) {
        self.events.update(|progress| {
            (progress.step, progress.warm_start_step) = (position.step, position.warm_start_steps);
            (progress.samples, progress.samples_done, progress.groups_trained) = (0, 0, 0);
        });
    }
}
