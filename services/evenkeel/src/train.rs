//! `evenkeel train`: a run from its recipe to its report.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use evenkeel_orchestrator::{
    LoadLimits, ResolvedRecipe, Run, RunDirectory, RunHandle, RunOptions, RunOutcome, StopMode,
};

use crate::arguments::TrainOptions;
use crate::cluster::Cluster;
use crate::fork;
use crate::recipe::{self, Recipe};
use crate::terminal::Screen;

/// Exit status after Ctrl-C, by the convention of shells.
const INTERRUPTED: u8 = 130;

pub(crate) async fn train(options: TrainOptions) -> Result<ExitCode> {
    let (recipe, resolved, directory) = open(&options)?;
    let path = directory.path().to_owned();
    let (_cluster, mut run) = match start(&recipe, resolved, &directory).await {
        Ok(started) => started,
        Err(refused) => {
            directory.discard();
            return Err(refused);
        }
    };
    drop(directory);
    let mut screen = Screen::new(options.json, run.progress());
    let mut asked = 0;
    loop {
        tokio::select! {
            event = run.next_event() => match event {
                Some(event) => screen.show(&event),
                None => break,
            },
            pressed = tokio::signal::ctrl_c() => {
                pressed.context("cannot listen for Ctrl-C")?;
                asked += 1;
                let mode = if asked == 1 { StopMode::AfterStep } else { StopMode::Now };
                screen.stopping(mode);
                run.stop(mode);
            }
            () = screen.tick() => {}
        }
    }
    screen.clear();
    let (outcome, summary) = run.join().await.with_context(|| resume_hint(&path))?;
    screen.last(outcome, &summary, &path);
    Ok(match outcome {
        RunOutcome::Completed => ExitCode::SUCCESS,
        RunOutcome::Stopped => ExitCode::from(INTERRUPTED),
    })
}

/// Starts the services and the run; all refusals come before the first step.
async fn start(recipe: &Recipe, resolved: ResolvedRecipe, directory: &RunDirectory) -> Result<(Cluster, RunHandle)> {
    let model = resolved.model_folder(directory.path(), &LoadLimits::unbounded())?;
    let cluster = Cluster::start(recipe, &model, directory).await?;
    let run = Run::start(resolved, directory.clone(), cluster.endpoints.clone(), RunOptions::default())?;
    Ok((cluster, run))
}

fn open(options: &TrainOptions) -> Result<(Recipe, ResolvedRecipe, RunDirectory)> {
    let mut set = options.set.clone();
    set.extend(options.steps.map(|steps| format!("run.steps={steps}")));
    match (&options.resume, &options.from) {
        (_, Some(from)) => fork::open(from, options.out.as_deref(), &set),
        (Some(path), None) => {
            let recipe = recipe::finish(RunDirectory::settings_of(path)?, &set)?.settings;
            let resolved = recipe.resolved()?;
            let directory = RunDirectory::resume(path, &resolved.identity)?;
            Ok((recipe, resolved, directory))
        }
        (None, None) => {
            let name = options.recipe.as_deref().unwrap_or("arithmetic");
            let recipe = recipe::load(name, &set)?.settings;
            let path = match &options.out {
                Some(path) => path.clone(),
                None => {
                    let stem = Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or("run");
                    free_directory(Path::new("runs"), &format!("{stem}-{}", recipe.run.seed))?
                }
            };
            let resolved = recipe.resolved()?;
            let directory = RunDirectory::create(&path, &resolved)?;
            Ok((recipe, resolved, directory))
        }
    }
}

/// `NAME` in a folder, or the first of `NAME-2`, `NAME-3`, ... that does not exist.
pub(crate) fn free_directory(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = |number: u32| match number {
        1 => folder.join(name),
        _ => folder.join(format!("{name}-{number}")),
    };
    match (1..10_000).map(path).find(|path| !path.exists()) {
        Some(path) => Ok(path),
        None => bail!("{} has 9999 runs of {name}: name another folder with --out", folder.display()),
    }
}

fn resume_hint(path: &Path) -> String {
    format!("the run ended; every finished step is kept. Go on with: evenkeel train --resume {}", path.display())
}
