//! `evenkeel train`: a run from its recipe to its report.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use evenkeel_model::Config;
use evenkeel_orchestrator::{
    Event, LoadLimits, PageServer, ResolvedRecipe, RunError, RunHandle, RunOptions, RunOutcome, StopWhen,
    VerifierSettings, check_model, start_run,
};
use evenkeel_proto::shown::with_causes;
use evenkeel_recipe::{Recipe, interpreters, preconditions};
use evenkeel_run::{RunDirectory, has_finished_step};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::arguments::{TrainOptions, probe_setting};
use crate::cluster::{Cluster, Environments};
use crate::dry_run::dry_run;
use crate::fork;
use crate::free_directory::free_directory;
use crate::programs::announce;
use crate::ranks;
use crate::runs::require_run;
use crate::signals::{Received, Signals};
use crate::terminal::{self, Screen};
use crate::verifiers::VerifierProcesses;

/// Where a run's page is served if nothing else is set.
const FREE_PORT: &str = "127.0.0.1:0";

/// What is said of a run that is told to end before its first step.
const NOTHING_LEFT: &str = "stopped before the run began: nothing was kept";

/// Share of the grace after which a step that is not trained is given up.
const GRACE_OF_STEP: f64 = 0.75;

pub(crate) async fn train(options: TrainOptions) -> Result<ExitCode> {
    let options = options.resolved();
    if options.dry_run {
        let loaded = evenkeel_recipe::load(options.recipes(), &settings(&options))?;
        let is_timed = !options.no_timing;
        return dry_run(&loaded, options.recipes(), options.out.as_deref(), is_timed, options.json).await;
    }
    if let Some(rank) = ranks::Follower::of(&options, &settings(&options))? {
        return rank.follow().await;
    }
    let (recipe, resolved, directory) = open(&options)?;
    let path = directory.path().to_owned();
    let run_options = RunOptions { accept_changed_inputs: options.accept_changed_inputs, ..RunOptions::default() };
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    // A task of its own: what reads files and waits for engines does not keep a signal waiting.
    let starting = start(recipe.clone(), resolved, directory.clone(), run_options);
    let started = tokio::select! {
        started = tokio::spawn(starting) => started.context("the start")?,
        received = signals.next() => {
            directory.discard();
            terminal::note(NOTHING_LEFT);
            std::process::exit(received.exit_status().into());
        }
    };
    let Started { cluster, _verifiers, mut run, page } = match started {
        Ok(started) => started,
        Err(refused) => {
            directory.discard();
            return Err(refused);
        }
    };
    let mut has_begun = false;
    let mut screen = Screen::new(options.json, options.verbose, run.progress());
    if let Some(page) = &page {
        screen.page(&page.url_of(&run.live()));
    }
    let mut ending = Ending::new(recipe.checkpoint.grace);
    let mut parent = Parent::watch(options.with_parent);
    loop {
        tokio::select! {
            event = run.next_event() => match event {
                Some(event) => {
                    has_begun |= matches!(&*event, Event::Started { .. });
                    screen.show(&event);
                }
                None => break,
            },
            received = signals.next() => {
                if let Some(mode) = ending.received(received) {
                    screen.stopping(mode, received, ending.grace);
                    run.stop(mode);
                }
            }
            said = parent.says() => match said {
                // It was told to end, and tells its runs.
                ParentSays::End => if let Some(mode) = ending.received(Received::Terminate) {
                    screen.stopping(mode, Received::Terminate, ending.grace);
                    run.stop(mode);
                },
                ParentSays::Gone => run.stop(StopWhen::Now),
            },
            when = ending.limit() => match when {
                Limit::Step => {
                    screen.abandoning();
                    run.stop(StopWhen::AbandonStep);
                }
                Limit::Grace => {
                    screen.clear();
                    screen.out_of_grace(ending.grace, &path);
                    // Neither a checkpoint nor the end of a call is waited for: what is on the disk is the last
                    // checkpoint.
                    std::process::exit(ending.exit_status().into());
                }
            },
            () = screen.tick() => {}
        }
    }
    screen.clear();
    let joined = run.join().await;
    // The last weights may still be on their way to the disk.
    tokio::task::spawn_blocking(evenkeel_host::arriving::wait_for_all).await.context("the last weights")?;
    cluster.end_ranks().await;
    if let Some(page) = &page {
        page.wait_for_followers().await;
    }
    let (outcome, summary) = match joined {
        Ok((RunOutcome::Stopped, _)) if !has_begun && !directory.is_resumed() => {
            directory.discard();
            terminal::note(NOTHING_LEFT);
            return Ok(ExitCode::from(ending.exit_status()));
        }
        Ok(joined) => joined,
        Err(error) if has_begun => bail!("{}\n{}", with_causes(&error), next_step(&path, &error)),
        // It was refused before its first step: what it says is what is to be changed, and nothing stands in the way of
        // the next try.
        Err(error) => {
            directory.discard();
            return Err(error.into());
        }
    };
    drop(directory);
    screen.last(outcome, &summary, &path);
    Ok(match outcome {
        RunOutcome::Completed => ExitCode::SUCCESS,
        RunOutcome::Stopped => ExitCode::from(ending.exit_status()),
    })
}

/// How a run that was asked to end ends.
struct Ending {
    grace: Duration,
    first: Option<Received>,
    /// When a step is given up, and when the process ends whatever it does; after a signal of a scheduler only.
    limits: Option<(Instant, Instant)>,
    is_step_over: bool,
}

/// What has run out.
enum Limit {
    /// The time for the current step.
    Step,
    Grace,
}

impl Ending {
    fn new(grace: Duration) -> Self {
        Self { grace, first: None, limits: None, is_step_over: false }
    }

    /// How the run is to stop now; `None` where nothing changes. A second Ctrl-C ends it at once. A scheduler may
    /// repeat its signal, which starts no new grace.
    fn received(&mut self, received: Received) -> Option<StopWhen> {
        if !received.is_from_person() && self.limits.is_none() {
            let now = Instant::now();
            self.limits = Some((now + self.grace.mul_f64(GRACE_OF_STEP), now + self.grace));
        }
        match self.first {
            None => {
                self.first = Some(received);
                Some(StopWhen::AfterStep)
            }
            Some(_) => received.is_from_person().then_some(StopWhen::Now),
        }
    }

    /// Completes when the next limit is reached, each once.
    async fn limit(&mut self) -> Limit {
        let Some((step, grace)) = self.limits else { return std::future::pending().await };
        if !self.is_step_over {
            tokio::time::sleep_until(step).await;
            self.is_step_over = true;
            return Limit::Step;
        }
        tokio::time::sleep_until(grace).await;
        Limit::Grace
    }

    fn exit_status(&self) -> u8 {
        self.first.unwrap_or(Received::Interrupt).exit_status()
    }
}

/// The process that has started this one and holds the other end of its standard input.
struct Parent(Option<mpsc::UnboundedReceiver<()>>);

enum ParentSays {
    /// A line: the run is to end as after SIGTERM.
    End,
    /// The end of input: nobody needs the run.
    Gone,
}

impl Parent {
    /// Nobody where it is not watched.
    fn watch(is_watched: bool) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        if !is_watched {
            return Self(None);
        }
        // A thread of its own, which the end of the process does not wait for.
        std::thread::spawn(move || {
            let mut byte = [0];
            let mut input = std::io::stdin();
            // An error means that nobody can write to it either.
            while let Ok(1) = input.read(&mut byte) {
                if byte[0] == b'\n' && sender.send(()).is_err() {
                    return;
                }
            }
        });
        Self(Some(receiver))
    }

    /// The next line of the parent; nothing more once it is gone.
    async fn says(&mut self) -> ParentSays {
        let Some(lines) = &mut self.0 else { return std::future::pending().await };
        match lines.recv().await {
            Some(()) => ParentSays::End,
            None => {
                self.0 = None;
                ParentSays::Gone
            }
        }
    }
}

/// A run with its services, which end with it.
struct Started {
    cluster: Cluster,
    _verifiers: VerifierProcesses,
    run: RunHandle,
    page: Option<PageServer>,
}

/// Starts the services, the run and its page; all refusals come before the first step.
async fn start(
    recipe: Recipe,
    resolved: ResolvedRecipe,
    directory: RunDirectory,
    options: RunOptions,
) -> Result<Started> {
    // First: a port that is taken costs nothing.
    let page = match recipe.page.address(Some(FREE_PORT))? {
        Some(address) => Some(PageServer::bind(&address, runs_folder(directory.path()), &recipe.page).await?),
        None => None,
    };
    let model = resolved.model_folder(directory.path(), &LoadLimits::unbounded())?;
    // The services load it before the run is prepared.
    check_model(&resolved, &directory, &options)?;
    let (config, _) = Config::load(&model).context("model.path")?;
    if let Some(refused) = preconditions::refused_by_services(&recipe, &model, &config).into_iter().next() {
        return Err(refused.into());
    }
    if let Some(missing) = interpreters::missing_interpreters(&recipe).into_iter().next() {
        return Err(missing.into());
    }
    announce(&recipe);
    // Prompts have what its environments say of themselves.
    let environments = Environments::start(&recipe).await?;
    // Before a function of the user's own is called; a run that is resumed is checked against its record as well, when
    // it starts.
    if !directory.is_resumed() && recipe.data.verifiers.values().any(VerifierSettings::is_started) {
        preconditions::check_inputs(&recipe, &resolved, directory.path(), &environments.described)?;
    }
    let verifiers = VerifierProcesses::start(&recipe.data.verifiers).await?;
    let cluster = Cluster::start(&recipe, &model, &directory, environments, true).await?;
    let mut endpoints = cluster.endpoints.clone();
    endpoints.verifiers.extend(verifiers.endpoints());
    let run = start_run(resolved, directory, endpoints, options)?;
    if let Some(page) = &page {
        page.attach(run.live());
    }
    Ok(Started { cluster, _verifiers: verifiers, run, page })
}

/// The folder that a run's directory is in, with the runs next to it.
fn runs_folder(directory: &Path) -> &Path {
    directory.parent().unwrap_or(directory)
}

fn open(options: &TrainOptions) -> Result<(Recipe, ResolvedRecipe, RunDirectory)> {
    let set = settings(options);
    match (&options.resume, &options.from) {
        (_, Some(from)) => fork::open(from, options.out.as_deref(), &set),
        (Some(path), None) => {
            require_run(path)?;
            let mut loaded = evenkeel_recipe::finish(RunDirectory::settings_of(path)?, &set)?;
            loaded.settings.model.pin(terminal::note)?;
            let resolved = evenkeel_recipe::with_origins(&loaded, loaded.settings.resolved_for_this_process()?);
            let directory = RunDirectory::resume(path, resolved.record())?;
            Ok((loaded.settings, resolved, directory))
        }
        (None, None) => {
            let names = options.recipes();
            let loaded = evenkeel_recipe::load(names, &set)?;
            let missing = preconditions::unnamed_model_and_data(&loaded);
            if !missing.is_empty() {
                let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
                bail!("{}", missing.join("; "));
            }
            let notes = evenkeel_recipe::notes_on(names, &loaded)?;
            let mut recipe = loaded.settings;
            recipe.model.pin(terminal::note)?;
            let path = match &options.out {
                Some(path) => path.clone(),
                None => {
                    let stem = evenkeel_recipe::stem(names);
                    free_directory(Path::new("runs"), &format!("{stem}-{}", recipe.run.seed))?
                }
            };
            let mut resolved = recipe.resolved_for_this_process()?;
            resolved.notes.extend(notes);
            let directory = RunDirectory::create(&path, resolved.record()).context("--out")?;
            Ok((recipe, resolved, directory))
        }
    }
}

/// What the command line sets.
fn settings(options: &TrainOptions) -> Vec<String> {
    let steps = options.steps.map(|steps| format!("run.steps={steps}"));
    options.set.iter().cloned().chain(steps).chain(probe_setting(options.probe_gradients)).collect()
}

/// How to go on after a run that failed.
fn next_step(path: &Path, error: &RunError) -> String {
    let path_shown = path.display();
    match has_finished_step(path) {
        Ok(false) if matches!(error, RunError::JudgeBudget { .. }) => format!(
            "no step is finished, and every verdict is kept: run the same command again with the larger budget and \
             --out {path_shown}"
        ),
        Ok(false) => format!(
            "no step is finished, so there is nothing to resume: fix the cause and run the same command again (--out \
             {path_shown} can be used again)"
        ),
        _ => format!("every finished step is kept; continue with: evenkeel resume {path_shown}"),
    }
}
