//! The paper's Table 1 and its figure of peak against last accuracy, from the runs that have finished, with the paper's
//! own numbers beside those of its tasks.
//!
//! The columns have the definitions of [`Measure`]; [`OtherReadings`] has the others that the paper leaves possible.
//! Means over tasks are of the tasks in which every arm has a finished run. With one seed they are plain means; with
//! more, seeds are matched by their order and the mean over tasks of each has Student's interval.

mod published;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use published::Published;
use published::{PaperRule, published};
pub(crate) use view::HEADING;

use crate::arms::{ArmSummary, BenchmarkSummary, OtherReadings};
use crate::mean::Mean;
use crate::measure::Measure;
use crate::run::Arm;
use crate::task::TaskComparison;

/// The columns of the table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Columns<T> {
    /// The highest mean@k of the averaged curve.
    pub peak_accuracy: T,
    /// The highest best@k of the averaged curve.
    pub peak_best: T,
    /// mean@k of the last evaluation.
    pub last_accuracy: T,
    /// best@k of the last evaluation.
    pub last_best: T,
}

impl<T: Copy> Columns<T> {
    /// Values in the order of the paper's columns.
    pub(crate) fn values(&self) -> [T; 4] {
        [self.peak_accuracy, self.peak_best, self.last_accuracy, self.last_best]
    }
}

/// The measures of the columns, in the order of the paper.
pub(crate) const COLUMNS: [Measure; 4] =
    [Measure::PeakAccuracy, Measure::PeakBest, Measure::LastAccuracy, Measure::LastBest];

/// Table 1, and what the figure of peak against last accuracy shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableOne {
    /// An arm of a task in each row, in the paper's order of rules.
    pub rows: Vec<TableOneRow>,
    /// Each arm over the tasks of `averaged`; empty for a single task.
    pub over_tasks: Vec<OverTasks>,
    /// The tasks that means over tasks are of.
    pub averaged: Vec<String>,
    /// mean@k of each benchmark and arm, averaged over tasks.
    pub benchmarks: Vec<BenchmarkOverTasks>,
    /// What is not in it and why, a sentence each.
    pub left_out: Vec<String>,
}

/// An arm of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableOneRow {
    pub task: String,
    /// How tables call the arm.
    pub arm: String,
    /// Number of seeds that finished.
    pub seeds: usize,
    /// Values of the columns; absent where the runs lack best@k.
    pub columns: Columns<Option<Mean>>,
    pub other_readings: OtherReadings,
    /// What the paper reports of this model on this data under this rule.
    pub published: Option<Published>,
}

/// An arm over tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverTasks {
    /// How tables call the arm.
    pub arm: String,
    pub columns: Columns<Option<Mean>>,
    /// The mean of what the paper reports of the same tasks, where it reports of all.
    pub published: Option<Published>,
}

/// A benchmark of an arm over tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkOverTasks {
    pub benchmark: String,
    /// How tables call the arm.
    pub arm: String,
    /// How many tasks it is averaged over: those in which every arm has the benchmark.
    pub tasks: usize,
    /// The highest mean@k of the benchmark, at a step of its own in each run.
    pub peak: Mean,
    /// mean@k of the last evaluation.
    pub last: Mean,
}

impl TableOne {
    /// The table of several tasks, or of one that the paper reports. `None` for others, and without accuracies.
    pub(crate) fn of(tasks: &[TaskComparison]) -> Option<Self> {
        let mut left_out = Vec::new();
        let mut rows = Vec::new();
        for task in tasks {
            for arm in in_order(&task.arms) {
                match row(task, arm) {
                    Some(row) => rows.push(row),
                    None => left_out.push(format!("{} on {}: no run has finished", arm.label, task.task)),
                }
            }
        }
        if rows.is_empty() || (tasks.len() < 2 && rows.iter().all(|row| row.published.is_none())) {
            return None;
        }
        let arms = all_arms(tasks);
        let mut averaged = Vec::new();
        for task in tasks {
            let missing: Vec<String> =
                arms.iter().filter(|arm| found(task, arm).is_none()).map(|arm| arm.label()).collect();
            if missing.is_empty() {
                averaged.push(task);
            } else if tasks.len() > 1 {
                left_out.push(format!("{} is in no mean over tasks: it lacks {}", task.task, missing.join(", ")));
            }
        }
        let benchmarks = benchmarks(tasks, &arms);
        for name in names_of_benchmarks(tasks) {
            if benchmarks.iter().all(|found| found.benchmark != *name) {
                left_out.push(format!("{name} is in no mean of a benchmark: no task has it for every arm"));
            }
        }
        let over_tasks = if averaged.len() > 1 { over_tasks(&averaged, &arms) } else { Vec::new() };
        Some(Self {
            over_tasks,
            averaged: averaged.iter().map(|task| task.task.clone()).collect(),
            benchmarks,
            left_out,
            rows,
        })
    }
}

/// The paper's order: sequence, token, balanced; other rules behind.
fn in_order(arms: &[ArmSummary]) -> Vec<&ArmSummary> {
    let place = |rule: Option<&str>| rule.and_then(PaperRule::of).map_or((true, None), |rule| (false, Some(rule)));
    let mut sorted: Vec<&ArmSummary> = arms.iter().collect();
    sorted.sort_by(|a, b| (place(a.rule.as_deref()), &a.label).cmp(&(place(b.rule.as_deref()), &b.label)));
    sorted
}

/// Every arm that has a finished run in some task, in the paper's order.
fn all_arms(tasks: &[TaskComparison]) -> Vec<Arm> {
    let mut rules: BTreeMap<&Arm, &ArmSummary> = BTreeMap::new();
    for arm in tasks.iter().flat_map(|task| &task.arms).filter(|arm| !arm.seeds.is_empty()) {
        rules.entry(&arm.arm).or_insert(arm);
    }
    let known: Vec<ArmSummary> = rules.into_values().cloned().collect();
    in_order(&known).into_iter().map(|summary| summary.arm.clone()).collect()
}

/// An arm of a task with a finished run and accuracies.
fn found<'a>(task: &'a TaskComparison, arm: &Arm) -> Option<&'a ArmSummary> {
    task.arms.iter().find(|summary| summary.arm == *arm && summary.measure(Measure::PeakAccuracy).is_some())
}

fn row(task: &TaskComparison, arm: &ArmSummary) -> Option<TableOneRow> {
    let mean = |measure| arm.measure(measure).map(|summary| summary.mean);
    let columns = columns(mean);
    columns.peak_accuracy?;
    Some(TableOneRow {
        task: task.task.clone(),
        arm: arm.label.clone(),
        seeds: arm.seeds.len(),
        columns,
        other_readings: arm.other_readings,
        published: of_paper(task, arm),
    })
}

fn of_paper(task: &TaskComparison, arm: &ArmSummary) -> Option<Published> {
    published(task.setting.as_ref()?, arm.rule.as_deref()?)
}

fn columns<T>(of: impl Fn(Measure) -> T) -> Columns<T> {
    let [peak_accuracy, peak_best, last_accuracy, last_best] = COLUMNS.map(of);
    Columns { peak_accuracy, peak_best, last_accuracy, last_best }
}

fn over_tasks(tasks: &[&TaskComparison], arms: &[Arm]) -> Vec<OverTasks> {
    let row = |arm: &Arm| {
        let summaries: Vec<&ArmSummary> = tasks.iter().filter_map(|task| found(task, arm)).collect();
        let by_seed = |measure: Measure| {
            let values = summaries.iter().map(|summary| Some(summary.measure(measure)?.by_seed.as_slice()));
            mean_over(&values.collect::<Option<Vec<&[f64]>>>()?)
        };
        let papers: Option<Vec<Published>> =
            tasks.iter().zip(&summaries).map(|(task, summary)| of_paper(task, summary)).collect();
        let count = tasks.len() as f64;
        let mean = |papers: Vec<Published>| {
            let [peak_accuracy, peak_best, last_accuracy, last_best] = [0, 1, 2, 3]
                .map(|column: usize| papers.iter().map(|paper| paper.values()[column]).sum::<f64>() / count);
            Columns { peak_accuracy, peak_best, last_accuracy, last_best }
        };
        OverTasks { arm: arm.label(), columns: columns(by_seed), published: papers.map(mean) }
    };
    arms.iter().map(row).collect()
}

/// The mean over tasks of each seed, then over seeds: as many as the task with the fewest has.
fn mean_over(tasks: &[&[f64]]) -> Option<Mean> {
    let seeds = tasks.iter().map(|values| values.len()).min()?;
    let of_seed = |seed: usize| tasks.iter().map(|values| values[seed]).sum::<f64>() / tasks.len() as f64;
    Mean::of_values(&(0..seeds).map(of_seed).collect::<Vec<_>>())
}

fn names_of_benchmarks(tasks: &[TaskComparison]) -> BTreeSet<&String> {
    tasks.iter().flat_map(|task| &task.arms).flat_map(|arm| &arm.benchmarks).map(|found| &found.name).collect()
}

fn benchmarks(tasks: &[TaskComparison], arms: &[Arm]) -> Vec<BenchmarkOverTasks> {
    fn find<'a>(task: &'a TaskComparison, arm: &Arm, name: &str) -> Option<&'a BenchmarkSummary> {
        found(task, arm)?.benchmarks.iter().find(|benchmark| benchmark.name == name)
    }
    let mut all = Vec::new();
    for name in names_of_benchmarks(tasks) {
        let having: Vec<&TaskComparison> =
            tasks.iter().filter(|task| arms.iter().all(|arm| find(task, arm, name).is_some())).collect();
        for arm in arms {
            let own: Vec<&BenchmarkSummary> = having.iter().filter_map(|task| find(task, arm, name)).collect();
            let mean = |of: fn(&BenchmarkSummary) -> &[f64]| {
                mean_over(&own.iter().map(|benchmark| of(benchmark)).collect::<Vec<_>>())
            };
            if let (Some(peak), Some(last)) = (mean(|of| &of.peak_by_seed), mean(|of| &of.last_by_seed)) {
                let benchmark = name.clone();
                all.push(BenchmarkOverTasks { benchmark, arm: arm.label(), tasks: having.len(), peak, last });
            }
        }
    }
    all
}
