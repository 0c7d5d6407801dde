//! Runs that exist, wherever they lie: read, put into tasks and arms, and what of them cannot be compared left out by
//! name.
//!
//! Runs of one task have the same model and the same data; those of another model or other data are another task. The
//! arms are the settings in which runs of a task differ. Left out and named are directories without a run, a second run
//! of one task, arm and seed, runs whose evaluations are not all there, and benchmarks that some runs of a task lack.
//! Runs that did not finish count as failed. Everything else in which runs of a task differ is refused when they are
//! compared.

mod complete;
mod folders;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use evenkeel_errors::FieldError;

use crate::recipes::ComparedRecipes;
use crate::run::{Arm, Run, RunEnd};
use crate::stored_run::{StoredRun, plain};
pub use folders::holds_runs;
use tasks::Tasks;

/// Sections whose settings make an arm.
const VARIED: &[&str] = &["learner.", "sampling.", "shaping.", "warm_start.", "run.steps"];
/// Settings of these that are no part of an arm.
const NO_ARM: &[&str] = &["learner.compute.", "learner.probe_gradients."];

/// Runs that exist, ready to be compared.
#[derive(Debug)]
pub struct Existing {
    pub runs: Vec<Run>,
    /// The benchmarks of problems that are held out of training data.
    pub held_out: BTreeSet<String>,
    /// What was left out and why, and which tasks have the same name: a sentence each.
    pub remarks: Vec<String>,
}

impl Existing {
    /// Reads directories: each is a run, or a folder with runs at any depth up to four.
    ///
    /// # Errors
    /// A directory that is named twice, directories without any run, and settings that are wrong.
    pub fn read(directories: &[String], recipes: &impl ComparedRecipes) -> Result<Self> {
        let (found, mut remarks) = folders::runs(directories);
        let mut read: Vec<StoredRun> = Vec::new();
        for directory in found {
            match StoredRun::read(&directory, recipes) {
                Ok(run) if read.iter().any(|other| other.record.path == run.record.path) => {
                    let path = run.record.path.display().to_string();
                    return Err(FieldError::new(path, "given twice", "each run once").into());
                }
                // A warm start of a comparison.
                Ok(run) if run.settings.steps == 0 => {}
                Ok(run) => read.push(run),
                Err(error) => remarks.push(format!("left out: {error:#}")),
            }
        }
        if read.is_empty() {
            bail!("no run to compare in {}: {}", directories.join(", "), remarks.join("; "));
        }
        let tasks = Tasks::of(&read);
        let mut runs = named(&read, &tasks);
        remarks.extend(tasks.remarks);
        remarks.extend(without_second(&mut runs));
        remarks.extend(complete::evaluations(&mut runs));
        remarks.extend(complete::benchmarks(&mut runs));
        let held_out = read.iter().map(|run| run.settings.held_out.clone()).collect();
        Ok(Self { runs, held_out, remarks })
    }
}

/// Each run with its task and its arm: the settings in which runs of some task differ.
fn named(read: &[StoredRun], tasks: &Tasks) -> Vec<Run> {
    let is_varied = |key: &&String| {
        let has = |prefixes: &[&str]| prefixes.iter().any(|prefix| key.starts_with(prefix));
        has(VARIED) && !has(NO_ARM)
    };
    let mut first: BTreeMap<&str, &StoredRun> = BTreeMap::new();
    let mut varied: BTreeSet<&String> = BTreeSet::new();
    for (run, task) in read.iter().zip(&tasks.names) {
        let first = *first.entry(task).or_insert(run);
        let keys = run.settings.values.keys().chain(first.settings.values.keys()).filter(is_varied);
        varied.extend(keys.filter(|key| run.settings.values.get(*key) != first.settings.values.get(*key)));
    }
    let arm = |run: &StoredRun| {
        let value = |key: &String| run.settings.values.get(key).map_or("absent", |value| plain(value)).to_owned();
        Arm(varied.iter().map(|key| ((*key).clone(), value(key))).collect())
    };
    read.iter().zip(&tasks.names).map(|(run, task)| run.run(task, arm(run), run.settings.seed)).collect()
}

/// Keeps one run of each task, arm and seed: the first that has finished.
fn without_second(runs: &mut Vec<Run>) -> Vec<String> {
    let mut said = Vec::new();
    // Finished ones first, and otherwise as they were given.
    runs.sort_by_key(|run| run.state != RunEnd::Finished);
    let mut kept: BTreeMap<(String, Arm, u64), String> = BTreeMap::new();
    runs.retain(|run| match kept.get(&(run.task.clone(), run.arm.clone(), run.seed)) {
        None => {
            kept.insert((run.task.clone(), run.arm.clone(), run.seed), run.name.clone());
            true
        }
        Some(other) => {
            let Run { name, seed, task, .. } = run;
            let label = run.arm.label();
            let of = if label.is_empty() { task.clone() } else { format!("{label} on {task}") };
            said.push(format!("left out: {name}, a second run of {of} with seed {seed}; {other} is the first"));
            false
        }
    });
    said
}
