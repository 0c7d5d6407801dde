//! A run: set up, started, followed, stopped, resumed.
//!
//! [`run_loop::prepare`] builds a [`RunLoop`](run_loop::RunLoop) from a recipe. **`training_loop` is what a run is**,
//! in the order in which it happens; `state` decides that order, `in_progress` and `loop_work` carry it out. Each other
//! part owns one thing: `preflight` the checks of the services, `changes` whether the run's inputs are what they were,
//! `warm_start` the supervised steps, `checkpoints` what the run returns to, `weight_sync` the engines' weights,
//! `training_steps` the learner's steps, `step_sampler` and `step_groups` what steps are made of, `step_clock` their
//! times, `trust` whether what was said happened, `evaluator` evaluations, `journal` the files.

mod changes;
mod checkpoints;
mod evaluation_run;
mod evaluator;
mod function_failures;
mod head;
mod idle_times;
mod in_place;
mod in_progress;
mod journal;
mod judge;
mod left_out;
mod loop_work;
mod position;
mod preflight;
mod prompt_record;
mod receipt;
mod records;
mod rollout_record;
mod run_context;
mod run_loop;
mod spans;
mod state;
mod step_clock;
mod step_groups;
mod step_lengths;
mod step_metrics;
mod step_sampler;
mod step_writer;
mod training_loop;
mod training_steps;
mod trust;
mod warm_start;
mod weight_sync;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_data::Cancelled;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::clients::{Endpoints, Stop};
use crate::error::RunError;
use crate::events::{Events, RunOutcome, RunProgress, Subscription};
use crate::inputs::{Known, of_model, of_teacher};
use crate::instruments;
use crate::live::LiveRun;
use crate::load::{LoadLimits, Loading};
use crate::recipe::ResolvedRecipe;
use crate::rejudge::{Rejudge, Repeats, refuse_environments};
use crate::trial::TrialRows;

use changes::ChangeGate;
pub use evaluation_run::{EvaluationHandle, EvaluationRequest};
use evenkeel_run::{InputKind, InputRecord, RunDirectory, Summary};
use run_loop::Checked;
pub use run_loop::StartNeeds;

/// How soon a run stops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StopWhen {
    /// After the current step and a checkpoint. A run that waits for a service ends at once.
    #[default]
    AfterStep,
    /// At the end of the last whole step, with a checkpoint: a step that is not trained yet is given up.
    AbandonStep,
    /// At once; the current step is repeated when the run is resumed.
    Now,
}

/// How a run is loaded.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// What loading may cost.
    pub limits: LoadLimits,
    /// Cancels the start while the run is being loaded.
    pub cancel: CancellationToken,
    /// Whether a run that is resumed goes on with files that are not those that it was begun with. It says so in its
    /// record.
    pub accept_changed_inputs: bool,
    /// Whether checkpoints are written. A run that is only timed writes none.
    pub keeps_checkpoints: bool,
}

impl Default for RunOptions {
    /// Without limits: a library's caller knows its recipe.
    fn default() -> Self {
        Self {
            limits: LoadLimits::unbounded(),
            cancel: CancellationToken::new(),
            accept_changed_inputs: false,
            keeps_checkpoints: true,
        }
    }
}

/// A run in a task of its own. Dropping it stops the run at once.
pub struct RunHandle {
    run_id: String,
    directory: PathBuf,
    subscription: Subscription,
    live: LiveRun,
    events: Events,
    stop: StopOnDrop,
    task: JoinHandle<Result<(RunOutcome, Summary), RunError>>,
}

/// Stops a run from elsewhere. Clones stop the same run.
#[derive(Debug, Clone)]
pub struct Stopper(Stop);

impl Stopper {
    /// Requests a stop. May be called again to request an earlier one.
    pub fn stop(&self, when: StopWhen) {
        match when {
            StopWhen::AfterStep => self.0.after_step(),
            StopWhen::AbandonStep => self.0.abandoning_step(),
            StopWhen::Now => self.0.immediately(),
        }
    }
}

/// Stops a run when its handle is dropped.
pub(crate) struct StopOnDrop(Stop);

impl StopOnDrop {
    /// Requests a stop before.
    pub(crate) fn stop(&self, when: StopWhen) {
        Stopper(self.0.clone()).stop(when);
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.immediately();
    }
}

/// Checks everything that can be checked without the services, and starts. A directory that was opened by
/// [`RunDirectory::resume`] continues from the learner's last checkpoint. Must be called within a Tokio runtime; the
/// services may still be starting.
///
/// # Errors
/// Invalid data, tokenizer, prompts or endpoints; of a run that is resumed, files that are not those that it was begun
/// with. Nothing has started then, and a directory that was created for this run is removed with its last clone.
pub fn start_run(
    recipe: ResolvedRecipe,
    directory: RunDirectory,
    endpoints: Endpoints,
    options: RunOptions,
) -> Result<RunHandle, RunError> {
    let events = Events::new(recipe.settings.run.steps);
    let stop = Stop::new();
    let subscription = events.subscribe();
    let run_id = directory.run_id().to_owned();
    let path = directory.path().to_owned();
    let cancel = options.cancel.clone();
    let run = run_loop::prepare(recipe, directory, &endpoints, options, events.clone(), stop.clone())?;
    Cancelled::check(&|| cancel.is_cancelled())?;
    run.directory().start_run()?;
    instruments::run_began(&run_id);
    tokio::spawn(instruments::follow(events.progress()));
    let live = LiveRun::follow(&run_id, &path, &events, Arc::downgrade(run.services()));
    let span = tracing::info_span!("run", run = run_id);
    let task = tokio::spawn(run.run().instrument(span));
    Ok(RunHandle { run_id, directory: path, subscription, live, events, stop: StopOnDrop(stop), task })
}

/// Checks everything of a recipe that [`start_run`] checks before it starts, and starts nothing: what it refuses is
/// refused here, by the same code. A fresh model is created below `folder`. The addresses in `endpoints` are not
/// connected to. Returns also the rows with which the user's own code can be tried.
///
/// # Errors
/// As [`start_run`].
pub fn check_start(
    recipe: &ResolvedRecipe,
    folder: &Path,
    endpoints: &Endpoints,
    limits: &LoadLimits,
) -> Result<(StartNeeds, TrialRows), RunError> {
    let loading = Loading { limits: limits.clone(), cancel: CancellationToken::new() };
    let checked = Checked::of(recipe, folder, endpoints, &loading)?;
    Ok((checked.needs(), checked.trial_rows()))
}

/// Reads the data of a run in `folder` as the run does, to judge its recorded answers again with the settings of a recipe
/// and the verifiers of `endpoints`, the only services that are called. Must be called within a Tokio runtime; nothing is
/// written.
///
/// # Errors
/// As [`start_run`]; an environment of the user's own; where all verdicts are repeated, one that gives the reward itself,
/// whose state was not recorded.
pub fn rejudge(
    recipe: &ResolvedRecipe,
    folder: &Path,
    endpoints: &Endpoints,
    repeats: Repeats,
) -> Result<Rejudge, RunError> {
    refuse_environments(&recipe.settings.data, repeats)?;
    Checked::of(recipe, folder, endpoints, &Loading::default())?.rejudge(repeats)
}

/// The parts of a run's model and teacher, and the data files, that are not what they were when the run began, a sentence
/// each.
///
/// # Errors
/// A record that cannot be read; a folder that is none of a model.
pub fn changed_inputs(
    directory: &Path,
    model: &Path,
    teacher: Option<&Path>,
) -> Result<(Vec<String>, Vec<String>), RunError> {
    let Some(record) = InputRecord::read(directory)? else { return Ok((Vec::new(), Vec::new())) };
    let known = Known { inputs: &record.inputs, read_again: false, cancel: &|| false };
    let mut changed = record.changes_of(InputKind::Model, &of_model(&Loading::default().model_folder(model), known)?);
    if let Some(teacher) = teacher {
        let found = of_teacher(&Loading::default().model_folder(teacher), known)?;
        changed.extend(record.changes_of(InputKind::Teacher, &found));
    }
    Ok((changed, record.changed_data()))
}

/// Compares model and teacher of a run that is resumed with those that it was begun with, before a service loads it.
/// [`start_run`] does so as well.
///
/// # Errors
/// Parts of the model that are others, unless they are accepted; a folder that is none of a model.
pub fn check_model(recipe: &ResolvedRecipe, directory: &RunDirectory, options: &RunOptions) -> Result<(), RunError> {
    let Some(begun_with) = directory.begun_with().filter(|_| !options.accept_changed_inputs) else { return Ok(()) };
    let folder = recipe.model_folder(directory.path(), &options.limits)?;
    let loading = Loading { limits: options.limits.clone(), cancel: options.cancel.clone() };
    let read_again = recipe.settings.checkpoint.read_inputs_again;
    let known = Known { inputs: &begun_with.inputs, read_again, cancel: &|| options.cancel.is_cancelled() };
    let mut changes = begun_with.changes_of(InputKind::Model, &of_model(&loading.model_folder(&folder), known)?);
    if let Some(teacher) = &recipe.teacher {
        let found = of_teacher(&loading.model_folder(teacher), known)?;
        changes.extend(begun_with.changes_of(InputKind::Teacher, &found));
    }
    ChangeGate::new(directory.path(), false).admit(changes)
}

impl RunHandle {
    /// Name of the run.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Directory of the run.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The next event, from the first on; `None` after [`Event::Finished`](crate::Event) or
    /// [`Event::Failed`](crate::Event).
    pub async fn next_event(&mut self) -> Option<Arc<crate::Event>> {
        self.subscription.recv().await
    }

    /// Where the run is, for progress bars: the newest state only.
    pub fn progress(&self) -> watch::Receiver<RunProgress> {
        self.events.progress()
    }

    /// The run for those who watch it.
    pub fn live(&self) -> LiveRun {
        self.live.clone()
    }

    /// Another reader of its events, starting now.
    pub fn subscribe(&self) -> Subscription {
        self.events.subscribe()
    }

    /// Events and progress, which outlive the handle.
    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// Stops it when the value is dropped, also without its handle.
    pub(crate) fn stop_on_drop(&self) -> StopOnDrop {
        StopOnDrop(self.stop.0.clone())
    }

    /// Requests a stop. May be called again to request an earlier one.
    pub fn stop(&self, when: StopWhen) {
        self.stopper().stop(when);
    }

    /// Stops it from elsewhere, such as a task that waits for a signal.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.0.clone())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Why it ended before its last step without a request to stop. Every finished step is in its directory.
    pub async fn join(mut self) -> Result<(RunOutcome, Summary), RunError> {
        // Nobody reads events here any more.
        self.subscription.close();
        match (&mut self.task).await {
            Ok(result) => result,
            Err(error) => Err(RunError::Defect(error.to_string())),
        }
    }

    /// Aborts the task wherever it is, as a killed process would end.
    #[doc(hidden)]
    pub async fn kill(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}
