//! `evenkeel train`: a run from its recipe to its report.

use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;

use anyhow::{Context, Result};
use evenkeel_orchestrator::{
    LoadLimits, PageServer, ResolvedRecipe, RunDirectory, RunHandle, RunOptions, RunOutcome, StopWhen, start_run,
};
use tokio::sync::oneshot;

use crate::arguments::{TrainOptions, probe_setting};
use crate::cluster::Cluster;
use crate::dry_run::dry_run;
use crate::fork;
use crate::free_directory::free_directory;
use crate::recipe::{self, Recipe};
use crate::terminal::Screen;

/// Where a run's page is served if nothing else is set.
const FREE_PORT: &str = "127.0.0.1:0";

/// Exit status after Ctrl-C, by the convention of shells.
const INTERRUPTED: u8 = 130;

pub(crate) async fn train(options: TrainOptions) -> Result<ExitCode> {
    if options.dry_run {
        let recipe = recipe::load(&options.recipe, &settings(&options))?.settings;
        return dry_run(&recipe, &recipe::stem(&options.recipe), options.out.as_deref(), options.json).await;
    }
    let (recipe, resolved, directory) = open(&options)?;
    let path = directory.path().to_owned();
    let (_cluster, mut run, page) = match start(&recipe, resolved, &directory).await {
        Ok(started) => started,
        Err(refused) => {
            directory.discard();
            return Err(refused);
        }
    };
    drop(directory);
    let mut screen = Screen::new(options.json, run.progress());
    if let Some(page) = &page {
        screen.page(&page.url_of(&run.live()));
    }
    let (mut asked, mut is_orphan) = (0, false);
    let mut parent_gone = pin!(parent_gone(options.with_parent));
    loop {
        tokio::select! {
            event = run.next_event() => match event {
                Some(event) => screen.show(&event),
                None => break,
            },
            pressed = tokio::signal::ctrl_c() => {
                pressed.context("cannot listen for Ctrl-C")?;
                asked += 1;
                let mode = if asked == 1 { StopWhen::AfterStep } else { StopWhen::Now };
                screen.stopping(mode);
                run.stop(mode);
            }
            () = &mut parent_gone, if !is_orphan => {
                is_orphan = true;
                run.stop(StopWhen::Now);
            }
            () = screen.tick() => {}
        }
    }
    screen.clear();
    let joined = run.join().await;
    if let Some(page) = &page {
        page.wait_for_followers().await;
    }
    let (outcome, summary) = joined.with_context(|| resume_hint(&path))?;
    screen.last(outcome, &summary, &path);
    Ok(match outcome {
        RunOutcome::Completed => ExitCode::SUCCESS,
        RunOutcome::Stopped => ExitCode::from(INTERRUPTED),
    })
}

/// Resolves when standard input ends: with the process that holds its other end. Otherwise never.
async fn parent_gone(is_watched: bool) {
    if !is_watched {
        return std::future::pending().await;
    }
    let (ended, end) = oneshot::channel::<()>();
    // A thread of its own, which the end of the process does not wait for.
    std::thread::spawn(move || {
        // An error means that nobody can write to it either.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(ended);
    });
    let _ = end.await;
}

/// Starts the services, the run and its page; all refusals come before the first step.
async fn start(
    recipe: &Recipe,
    resolved: ResolvedRecipe,
    directory: &RunDirectory,
) -> Result<(Cluster, RunHandle, Option<PageServer>)> {
    // First: a port that is taken costs nothing.
    let page = match recipe.page.address(Some(FREE_PORT))? {
        Some(address) => Some(PageServer::bind(&address, runs_folder(directory.path()), &recipe.page).await?),
        None => None,
    };
    let model = resolved.model_folder(directory.path(), &LoadLimits::unbounded())?;
    let cluster = Cluster::start(recipe, &model, directory).await?;
    let run = start_run(resolved, directory.clone(), cluster.endpoints.clone(), RunOptions::default())?;
    if let Some(page) = &page {
        page.attach(run.live());
    }
    Ok((cluster, run, page))
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
            let recipe = recipe::finish(RunDirectory::settings_of(path)?, &set)?.settings;
            let resolved = recipe.resolved_for_this_process()?;
            let directory = RunDirectory::resume(path, &resolved.identity)?;
            Ok((recipe, resolved, directory))
        }
        (None, None) => {
            let recipe = recipe::load(&options.recipe, &set)?.settings;
            let path = match &options.out {
                Some(path) => path.clone(),
                None => {
                    let stem = recipe::stem(&options.recipe);
                    free_directory(Path::new("runs"), &format!("{stem}-{}", recipe.run.seed))?
                }
            };
            let resolved = recipe.resolved_for_this_process()?;
            let directory = RunDirectory::create(&path, &resolved)?;
            Ok((recipe, resolved, directory))
        }
    }
}

/// What the command line sets.
fn settings(options: &TrainOptions) -> Vec<String> {
    let steps = options.steps.map(|steps| format!("run.steps={steps}"));
    options.set.iter().cloned().chain(steps).chain(probe_setting(options.probe_gradients)).collect()
}

fn resume_hint(path: &Path) -> String {
    format!("the run ended; every finished step is kept. Continue with: evenkeel train --resume {}", path.display())
}
