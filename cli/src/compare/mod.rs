//! `evenkeel compare`: which setting to train with, and whether the difference is real.
//!
//! The command starts every arm with several seeds, or takes runs that exist, and prints what `evenkeel_comparison`
//! makes of them.

mod jobs;
mod progress;
mod recipes;
mod schedule;
mod worker;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use evenkeel_comparison::{
    Comparison, ComparisonPlan, ComparisonRequest, Existing, HTML, Measure, Options, PlannedArm, Run, RunEnd, SEEDS,
    StoredRun, Study, StudyChanges, Varied, holds_runs, write_results, write_tasks,
};
use evenkeel_proto::FieldError;

use crate::arguments::{CompareOptions, probe_setting};
use crate::free_directory::free_directory;
use crate::terminal::{note, print_result};
use jobs::{Job, jobs};
use progress::ProgressTable;
use recipes::Recipes;
use worker::JobOutcome;

/// Folder of comparisons without `--out`.
const FOLDER: &str = "comparisons";
/// Exit status after Ctrl-C, by the convention of shells.
const INTERRUPTED: u8 = 130;

pub(crate) async fn compare(options: CompareOptions) -> Result<ExitCode> {
    // A folder that is called like a recipe is meant with a path: ./arithmetic.
    let is_folder = |name: &&String| !evenkeel_recipe::comes_with_program(name) && Path::new(name).is_dir();
    let refused = |what: String, allowed| Err(FieldError::new("RECIPE or RUN", what, allowed).into());
    let has_runs = options.names.iter().filter(is_folder).any(|name| holds_runs(Path::new(name)));
    match (has_runs, options.names.iter().find(is_folder), options.names.iter().find(|name| !is_folder(name))) {
        (true, _, Some(recipe)) => {
            refused(format!("{recipe:?}, which holds no run, among runs"), "only recipes, or only directories of runs")
        }
        // One without a run beside others is left out and named.
        (true, _, None) => of_existing(&options),
        (false, Some(folder), _) => {
            refused(format!("{folder:?}, which holds no run"), "recipes, a study, or directories of runs")
        }
        (false, None, _) => {
            let (options, asked) = asked(&options)?;
            run(&options, asked).await
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
    let existing = Existing::read(&options.names, &Recipes)?;
    let comparison = Comparison::of_existing(&existing, &compared(options, existing.held_out.clone())?)?;
    let folder = match &options.out {
        Some(folder) => folder.clone(),
        None => free_directory(Path::new(FOLDER), "runs")?,
    };
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    write_results(&folder, &comparison, &existing.runs)?;
    print(&comparison, &folder, options.json)?;
    Ok(ExitCode::SUCCESS)
}

/// How runs are compared. `held_out` are the benchmarks of held-out problems.
fn compared(options: &CompareOptions, held_out: BTreeSet<String>) -> Result<Options, FieldError> {
    let primary = options.primary.as_ref().map(|key| Measure::parse("--primary", key)).transpose()?;
    let usual = Options::default();
    Ok(Options { primary, reward: options.reward, held_out, margin: options.margin.unwrap_or(usual.margin), ..usual })
}

/// Prints the comparison on stdout, and where its page is on stderr.
fn print(comparison: &Comparison, folder: &Path, json: bool) -> Result<()> {
    print_result(&if json {
        format!("{}\n", serde_json::to_string(comparison)?)
    } else {
        format!("\n{}\n", comparison.to_text())
    })?;
    note(&format!("page  {}", folder.join(HTML).display()));
    Ok(())
}

/// What is to be run: by the command line alone, or by a study with the command line over it. The options have what the
/// study adds.
fn asked(given: &CompareOptions) -> Result<(CompareOptions, ComparisonRequest)> {
    let mut study = None;
    for name in &given.names {
        study = study.or(Study::find(name)?);
    }
    match study {
        Some(study) if given.names.len() == 1 => by_study(&study, given),
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
            let asked = ComparisonRequest {
                recipes: given.names.clone(),
                varied: given.vary.iter().map(|text| Varied::parse(text)).collect::<Result<_, _>>()?,
                set: settings(given),
                threads: given.threads.unwrap_or(1),
                seeds: given.seeds.unwrap_or(SEEDS),
                ..ComparisonRequest::default()
            };
            Ok((given.clone(), asked))
        }
    }
}

fn by_study(study: &Study, given: &CompareOptions) -> Result<(CompareOptions, ComparisonRequest)> {
    if !given.vary.is_empty() {
        return Err(FieldError::new("--vary", "given", "absent with a study, which says what it varies").into());
    }
    let changes = StudyChanges { quick: given.quick, set: settings(given), threads: given.threads, seeds: given.seeds };
    let asked = study.request(changes, &Recipes)?;
    let options = CompareOptions {
        primary: given.primary.clone().or(asked.primary),
        reward: given.reward.or(asked.reward),
        out: Some(given.out.clone().unwrap_or_else(|| Path::new(FOLDER).join(asked.folder))),
        ..given.clone()
    };
    Ok((options, asked.comparison))
}

/// Settings of all runs that the command line gives.
fn settings(given: &CompareOptions) -> Vec<String> {
    given.set.iter().cloned().chain(probe_setting(given.probe_gradients)).collect()
}

/// Runs what the folder lacks, and compares.
async fn run(options: &CompareOptions, asked: ComparisonRequest) -> Result<ExitCode> {
    let threads = asked.threads;
    let (plan, arms) = ComparisonPlan::new(asked, &Recipes)?;
    let compared = compared(options, arms.iter().map(|arm| arm.settings.held_out.clone()).collect())?;
    let folder = match &options.out {
        Some(folder) => folder.clone(),
        None => PathBuf::from(FOLDER).join(evenkeel_recipe::stem(&options.names)),
    };
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    note(&format!("runs and results go to {}; continue with the same command", folder.display()));
    let folder = std::fs::canonicalize(&folder)?;
    let _lock = lock(&folder)?;
    plan.keep(&folder)?;
    let jobs = jobs(&plan, &arms, &folder);

    let at_once = options.jobs.unwrap_or_else(|| jobs_at_once(&arms, rayon::current_num_threads(), threads));
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
        let folder = folder.display();
        note(&format!("stopped; run the same command again to continue: finished runs are in {folder}"));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let mut runs = Vec::new();
    for (job, ended) in jobs.iter().zip(ended.iter().flatten()) {
        if let Some((run, _)) = results_of(job, ended)? {
            runs.push(run);
        }
    }
    if runs.iter().all(|run| run.state != RunEnd::Finished) {
        bail!("every run failed; the reasons are in the logs next to the directories in {}", folder.display());
    }
    let comparison = Comparison::of(&runs, &compared)?;
    write_results(&folder, &comparison, &runs)?;
    write_tasks(&folder, &runs, &compared)?;
    print(&comparison, &folder, options.json)?;
    Ok(ExitCode::SUCCESS)
}

/// As many runs as have cores, each with its threads; one where a run trains on a GPU or samples from engines of
/// somebody else, which the runs would share.
fn jobs_at_once(arms: &[PlannedArm], cores: usize, threads: usize) -> usize {
    let is_shared = |arm: &PlannedArm| {
        let value = |key: &str| arm.settings.values.get(key).map_or("", String::as_str);
        let is_on_cpu = ["", "\"cpu\""].contains(&value("learner.compute.device"));
        !is_on_cpu || !["", "[]"].contains(&value("generation.endpoints"))
    };
    if arms.iter().any(is_shared) { 1 } else { cores.div_euclid(threads).max(1) }
}

/// What a job contributes, and the length of answers in its last step; `None` for a warm start.
fn results_of(job: &Job, ended: &JobOutcome) -> Result<Option<(Run, Option<f64>)>> {
    let Some(result) = &job.result else { return Ok(None) };
    match (StoredRun::read(&job.directory, &Recipes), ended) {
        (Ok(read), ended) => {
            let mut run = read.run(&result.task, result.arm.clone(), result.seed);
            // The same wherever the folder is.
            run.name.clone_from(&job.name);
            if let JobOutcome::Failed(reason) = ended {
                run.state = RunEnd::Failed { reason: reason.clone() };
            }
            Ok(Some((run, read.last_length())))
        }
        (Err(_), JobOutcome::Failed(reason)) => {
            Ok(Some((Run::failed(&job.name, &result.task, result.arm.clone(), result.seed, reason), None)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_share_a_gpu_or_engines_go_one_after_the_other() {
        let at_once = |names: &[&str]| {
            let given = CompareOptions {
                names: names.iter().map(|&name| name.to_owned()).collect(),
                vary: vec!["learner.objective.aggregation=token,sequence".to_owned()],
                ..CompareOptions::default()
            };
            let (_, arms) = ComparisonPlan::new(asked(&given).unwrap().1, &Recipes).unwrap();
            jobs_at_once(&arms, 16, 2)
        };
        assert_eq!((at_once(&["arithmetic"]), at_once(&["arithmetic", "paper/qwen3-1.7b-dapo"])), (8, 1));
    }

    #[test]
    fn the_command_line_comes_over_a_study() {
        let given = CompareOptions {
            names: vec!["studies/lora".to_owned()],
            seeds: Some(3),
            reward: Some(0.5),
            set: vec!["run.steps=1".to_owned()],
            ..CompareOptions::default()
        };
        let (options, comparison) = asked(&given).unwrap();
        assert_eq!((comparison.seeds, comparison.set.last().map(String::as_str)), (3, Some("run.steps=1")));
        assert_eq!((options.reward, options.out), (Some(0.5), Some(PathBuf::from("comparisons/lora"))));
        let varied = CompareOptions { vary: vec!["a.b=1,2".to_owned()], ..given };
        let error = asked(&varied).unwrap_err().to_string();
        assert!(error.starts_with("--vary is given, allowed: absent with a study"), "{error}");
    }
}
