//! `evenkeel compare`: which setting to train with, and whether the difference is real.
//!
//! It runs every arm with several seeds, or takes runs that exist, and writes what `evenkeel_comparison` makes of them.

mod jobs;
mod losses;
mod page;
mod plan;
mod plane;
mod progress;
mod read;
mod results;
mod schedule;
mod study;
mod tables;
mod varied;
mod worker;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use evenkeel_comparison::{Comparison, Options, Run, RunEnd};
use evenkeel_proto::FieldError;
use evenkeel_run::RunRecord;

use crate::arguments::{CompareOptions, probe_setting};
use crate::free_directory::free_directory;
use jobs::{Job, jobs};
use plan::{Plan, Request};
use progress::ProgressTable;
use read::StoredRun;
use study::Study;
use varied::Varied;
use worker::JobOutcome;

/// Folder of comparisons without `--out`.
const FOLDER: &str = "comparisons";
/// Exit status after Ctrl-C, by the convention of shells.
const INTERRUPTED: u8 = 130;
const SEEDS: u64 = 8;

/// Whether a file is a study, which is read as one.
#[cfg(test)]
pub(crate) fn is_study(path: &str) -> Result<bool> {
    Ok(Study::find(path)?.is_some())
}

pub(crate) async fn compare(options: CompareOptions) -> Result<ExitCode> {
    let is_run = |name: &String| RunRecord::read(Path::new(name)).is_ok();
    match options.names.iter().filter(|name| is_run(name)).count() {
        0 => {
            let (options, asked) = asked(&options)?;
            run(&options, asked).await
        }
        all if all == options.names.len() => of_existing(&options),
        _ => {
            let recipe = options.names.iter().find(|name| !is_run(name)).map_or("", String::as_str);
            let allowed = "only recipes, or only directories of runs";
            Err(FieldError::new("RECIPE or RUN", format_args!("{recipe:?}, which holds no run, among runs"), allowed)
                .into())
        }
    }
}

/// Runs that exist, from wherever they come.
fn of_existing(options: &CompareOptions) -> Result<ExitCode> {
    for (name, given) in [
        ("--vary", !options.vary.is_empty()),
        ("--seeds", options.seeds.is_some()),
        ("--jobs", options.jobs.is_some()),
        ("--threads", options.threads.is_some()),
        ("--probe-gradients", options.probe_gradients.is_some()),
        ("--set", !options.set.is_empty()),
        ("--quick", options.quick),
    ] {
        if given {
            return Err(FieldError::new(name, "given", "absent with existing runs").into());
        }
    }
    let (runs, held_out) = read::existing(&options.names)?;
    let comparison = Comparison::of(&runs, &Options { held_out, ..results::options(options)? })?;
    let folder = match &options.out {
        Some(folder) => folder.clone(),
        None => free_directory(Path::new(FOLDER), "runs")?,
    };
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    results::write(&folder, &comparison, &runs)?;
    // Runs that exist are called by their directories.
    let losses = losses::markdown(runs.iter().map(|run| (run, Path::new(&run.name))));
    results::write_markdown(&folder, &comparison, &losses)?;
    results::print(&comparison, &folder, options.json)?;
    Ok(ExitCode::SUCCESS)
}

/// What is to be run: by the command line alone, or by a study with the command line over it. The options have what the
/// study adds.
fn asked(given: &CompareOptions) -> Result<(CompareOptions, Request)> {
    let mut study = None;
    for name in &given.names {
        study = study.or(Study::find(name)?);
    }
    match study {
        Some(study) if given.names.len() == 1 => study.under(given),
        Some(_) => {
            let value = format!("{} names, a study among them", given.names.len());
            Err(FieldError::new("RECIPE", value, "a study alone, which names its recipes").into())
        }
        None if given.quick => Err(FieldError::new("--quick", "given", "absent without a study").into()),
        None if given.vary.is_empty() => {
            let allowed = "KEY=VALUE,VALUE, a study, or the directories of existing runs";
            Err(FieldError::missing("--vary", allowed).into())
        }
        None => {
            let asked = Request {
                recipes: given.names.clone(),
                varied: given.vary.iter().map(|text| Varied::parse(text)).collect::<Result<_, _>>()?,
                set: given.set.iter().cloned().chain(probe_setting(given.probe_gradients)).collect(),
                threads: given.threads.unwrap_or(1),
                seeds: given.seeds.unwrap_or(SEEDS),
                ..Request::default()
            };
            Ok((given.clone(), asked))
        }
    }
}

/// Runs what the folder lacks, and compares.
async fn run(options: &CompareOptions, asked: Request) -> Result<ExitCode> {
    let threads = asked.threads;
    let (plan, variants) = Plan::new(asked)?;
    let held_out = variants.iter().map(|variant| variant.settings.data.name()).collect();
    let compared = Options { held_out, ..results::options(options)? };
    let folder = match &options.out {
        Some(folder) => folder.clone(),
        None => PathBuf::from(FOLDER).join(evenkeel_recipe::stem(&options.names)),
    };
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let folder = std::fs::canonicalize(&folder)?;
    let _lock = lock(&folder)?;
    plan.keep(&folder)?;
    let jobs = jobs(&plan, &variants, &folder);

    let at_once = options.jobs.unwrap_or_else(|| rayon::current_num_threads().div_euclid(threads).max(1));
    if at_once == 0 {
        return Err(FieldError::new("--jobs", 0, "at least 1").into());
    }
    let program = [std::env::current_exe()?.display().to_string()];
    let mut progress = ProgressTable::new(&jobs);
    let ended = schedule::run_all(&jobs, at_once, &program, |happened| {
        progress.show(happened, |job| results_of(job, &JobOutcome::Finished).ok().flatten());
    });
    let ended = ended.await?;
    progress.clear();

    let is_over = |ended: &Option<JobOutcome>| matches!(ended, Some(JobOutcome::Finished | JobOutcome::Failed(_)));
    if !ended.iter().all(is_over) {
        results::say(&format!(
            "stopped; run the same command again to continue: what is done is in {}",
            folder.display()
        ));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let mut runs = Vec::new();
    let mut directories = Vec::new();
    for (job, ended) in jobs.iter().zip(ended.iter().flatten()) {
        if let Some((run, _)) = results_of(job, ended)? {
            runs.push(run);
            directories.push(job.directory.as_path());
        }
    }
    if runs.iter().all(|run| run.state != RunEnd::Finished) {
        bail!("every run failed; the reasons are in the logs next to the directories in {}", folder.display());
    }
    let comparison = Comparison::of(&runs, &compared)?;
    results::write(&folder, &comparison, &runs)?;
    results::write_tasks(&folder, &runs, &compared)?;
    let losses = losses::markdown(runs.iter().zip(directories));
    results::write_markdown(&folder, &comparison, &losses)?;
    results::print(&comparison, &folder, options.json)?;
    Ok(ExitCode::SUCCESS)
}

/// What a job contributes, and the length of answers in its last step; `None` for a warm start.
fn results_of(job: &Job, ended: &JobOutcome) -> Result<Option<(Run, Option<f64>)>> {
    let Some(result) = &job.result else { return Ok(None) };
    let failed = |reason: &str| RunEnd::Failed { reason: reason.to_owned() };
    match (StoredRun::of(&job.directory), ended) {
        (Ok(read), ended) => {
            let mut run = read.run(&result.task, result.arm.clone(), result.seed)?;
            // The same wherever the folder is.
            run.name.clone_from(&job.name);
            if let JobOutcome::Failed(reason) = ended {
                run.state = failed(reason);
            }
            Ok(Some((run, read.last_length())))
        }
        (Err(_), JobOutcome::Failed(reason)) => {
            let run = Run {
                name: job.name.clone(),
                task: result.task.clone(),
                arm: result.arm.clone(),
                seed: result.seed,
                identity: Default::default(),
                evaluations: Vec::new(),
                rewards: Vec::new(),
                rule: None,
                lengths: Vec::new(),
                state: failed(reason),
            };
            Ok(Some((run, None)))
        }
        (Err(error), _) => Err(error),
    }
}

/// One process runs a comparison at a time.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(".lock");
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => {
            let allowed = "a folder that no other comparison uses";
            Err(FieldError::new(folder.display().to_string(), "in use by another process", allowed).into())
        }
    }
}
