//! The arms of one task.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_errors::FieldError;
use evenkeel_statistics::Resampling;
use serde::{Deserialize, Serialize};

use crate::arms::{ArmSummary, FailedSeed};
use crate::bands::{Band, bands};
use crate::criterion::Criterion;
use crate::measure::Measure;
use crate::options::Options;
use crate::outcome::RunValues;
use crate::pairs::{PairedDifference, paired_differences};
use crate::run::{Arm, Run, RunEnd, Setting};

/// A task with its arms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskComparison {
    pub task: String,
    /// The model and the data, where they are known.
    pub setting: Option<Setting>,
    /// What all of its runs have in common, by name.
    pub identity: BTreeMap<String, String>,
    /// The benchmarks whose average the accuracies are.
    pub averaged: BTreeSet<String>,
    /// Samples for each problem (k), where all of these have the same.
    pub samples: Option<u32>,
    /// Evaluations of a run.
    pub evaluations: usize,
    /// The measure that was chosen before the runs; the others are secondary.
    pub primary: Option<Measure>,
    /// Each arm, in order of their settings.
    pub arms: Vec<ArmSummary>,
    /// Comparisons of each pair of arms, by measure.
    pub pairs: Vec<PairedDifference>,
    /// Where its runs lie in the plane of the paper's criterion, and the verdicts on its expectations. Absent where
    /// lengths are unknown.
    pub criterion: Option<Criterion>,
    pub bands: Vec<Band>,
}

impl TaskComparison {
    /// Compares validated runs of the task, which are ordered by arm and seed.
    pub(crate) fn of(task: &str, runs: &[&Run], options: &Options, resampling: Resampling) -> Result<Self, FieldError> {
        let finished = || runs.iter().filter(|run| run.state == RunEnd::Finished);
        let averaged = averaged(finished().flat_map(|run| &run.evaluations).flat_map(|e| e.benchmarks.keys()), options);
        let mut by_arm: BTreeMap<&Arm, (Vec<&Run>, Vec<FailedSeed>)> = BTreeMap::new();
        for run in runs {
            let (finished, failed) = by_arm.entry(&run.arm).or_default();
            match &run.state {
                RunEnd::Finished => finished.push(*run),
                RunEnd::Failed { reason } => failed.push(FailedSeed { seed: run.seed, reason: reason.clone() }),
            }
        }
        let mut finished_runs = Vec::new();
        let mut arms = Vec::new();
        let mut outcomes = Vec::new();
        for (arm, (finished, failed)) in by_arm {
            let of_arm: Vec<RunValues> =
                finished.iter().map(|run| RunValues::of(run, &averaged, options.reward)).collect();
            arms.push(ArmSummary::of(arm.clone(), &of_arm, failed, &averaged));
            outcomes.push(of_arm);
            finished_runs.push(finished);
        }
        let first = outcomes.iter().flatten().next();
        let has = |measure: &Measure| first.is_some_and(|outcome| outcome.value(*measure).is_some());
        let primary = options.primary.or([Measure::LastAccuracy, Measure::LastReward].into_iter().find(has));
        let pairs = paired_differences(&outcomes, resampling, options.seed)?;
        Ok(Self {
            task: task.to_owned(),
            setting: runs.iter().find_map(|run| run.setting.clone()),
            identity: runs.first().map(|run| run.identity.clone()).unwrap_or_default(),
            samples: first.and_then(|outcome| outcome.average.as_ref()?.samples),
            evaluations: finished().map(|run| run.evaluations.len()).max().unwrap_or(0),
            averaged,
            primary,
            criterion: Criterion::of(&finished_runs, &arms, &pairs, primary, options)?,
            pairs,
            bands: outcomes.iter().enumerate().flat_map(|(arm, outcomes)| bands(arm, outcomes)).collect(),
            arms,
        })
    }
}

/// All benchmarks but the held-out problems of the training data, which count where there is nothing else.
fn averaged<'a>(names: impl Iterator<Item = &'a String>, options: &Options) -> BTreeSet<String> {
    let names: BTreeSet<String> = names.cloned().collect();
    let others: BTreeSet<String> = names.difference(&options.held_out).cloned().collect();
    if others.is_empty() { names } else { others }
}
