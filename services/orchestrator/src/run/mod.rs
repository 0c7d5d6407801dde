//! A run: checked, started, followed, stopped, resumed.

mod begin;
mod boundary;
mod drive;
mod evaluate;
mod position;
mod step;
mod warm_start;

use std::path::PathBuf;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clients::{Endpoints, Stop};
use crate::directory::RunDirectory;
use crate::error::RunError;
use crate::events::{Events, Outcome, Progress, Subscription};
use crate::load::{Cancel, LoadLimits};
use crate::recipe::ResolvedRecipe;
use crate::summary::Summary;

/// How soon a run ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StopMode {
    /// After the current step and a checkpoint. A run that waits for a service ends at once.
    #[default]
    AfterStep,
    /// At once; the current step is done again when the run is resumed.
    Now,
}

/// How a run is loaded.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// What it may cost to load.
    pub limits: LoadLimits,
    /// Takes the start back while it is being loaded.
    pub cancel: Cancel,
}

impl Default for RunOptions {
    /// Without limits: a library's caller knows its recipe.
    fn default() -> Self {
        Self { limits: LoadLimits::unbounded(), cancel: Cancel::default() }
    }
}

/// The loop. See [`Run::start`].
pub struct Run;

/// A run in a task of its own. Dropping it stops the run at once.
pub struct RunHandle {
    run_id: String,
    directory: PathBuf,
    subscription: Subscription,
    pub(crate) events: Events,
    pub(crate) stop: StopOnDrop,
    task: JoinHandle<Result<(Outcome, Summary), RunError>>,
}

/// Asks a run to end. Clones ask the same run.
#[derive(Debug, Clone)]
pub struct Stopper(Stop);

impl Stopper {
    /// Asks it to end. May be called again, to ask for more.
    pub fn stop(&self, mode: StopMode) {
        self.0.ask(mode == StopMode::Now);
    }
}

/// Stops a run with the handle that nobody holds any more.
pub(crate) struct StopOnDrop(pub(crate) Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.ask(true);
    }
}

impl Run {
    /// Checks everything that can be checked without the services, and starts. A directory that was opened by
    /// [`RunDirectory::resume`] goes on from the learner's last checkpoint. Must be called within a Tokio runtime; the services may
    /// still be starting.
    ///
    /// # Errors
    /// Whatever cannot be: data, tokenizer, prompts that are too long, endpoints. Nothing has started then, and a directory that was
    /// made for this run goes with its last holder.
    pub fn start(
        recipe: ResolvedRecipe,
        directory: RunDirectory,
        endpoints: Endpoints,
        options: RunOptions,
    ) -> Result<RunHandle, RunError> {
        let (events, stop) = (Events::new(recipe.recipe.run.steps), Stop::new());
        let subscription = events.subscribe();
        let (run_id, path) = (directory.run_id().to_owned(), directory.path().to_owned());
        let cancel = options.cancel.clone();
        let driver = begin::begin(recipe, directory, endpoints, options, events.clone(), stop.clone())?;
        cancel.check()?;
        driver.directory.begin(&driver.config)?;
        let task = tokio::spawn(driver.run());
        Ok(RunHandle { run_id, directory: path, subscription, events, stop: StopOnDrop(stop), task })
    }
}

impl RunHandle {
    /// Name of the run.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Its directory.
    pub fn directory(&self) -> &std::path::Path {
        &self.directory
    }

    /// The next event, from the first on; `None` after [`Event::Finished`](crate::Event) or [`Event::Failed`](crate::Event).
    pub async fn next_event(&mut self) -> Option<std::sync::Arc<crate::Event>> {
        self.subscription.recv().await
    }

    /// Where the run is, for progress bars: the newest state only.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.events.progress()
    }

    /// Another reader of its events, from now on.
    pub fn subscribe(&self) -> Subscription {
        self.events.subscribe()
    }

    /// Asks it to end. May be called again, to ask for more.
    pub fn stop(&self, mode: StopMode) {
        self.stopper().stop(mode);
    }

    /// What asks it to end from elsewhere, such as a task that waits for a signal.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.0.clone())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Why it ended before its last step without being asked to. Every finished step is in its directory.
    pub async fn join(mut self) -> Result<(Outcome, Summary), RunError> {
        // Nobody reads them here any more.
        self.subscription.close();
        match (&mut self.task).await {
            Ok(result) => result,
            Err(error) => Err(RunError::Defect(error.to_string())),
        }
    }

    /// Ends the task where it stands, as a killed process would.
    #[doc(hidden)]
    pub async fn kill(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}
