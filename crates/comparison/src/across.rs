//! Over several tasks: interquartile means and probabilities of improvement.

use evenkeel_errors::FieldError;
use evenkeel_statistics::{Confidence, Improvement, InterquartileMean, Interval, Resampling};
use serde::{Deserialize, Serialize};

use crate::measure::Measure;
use crate::run::Arm;
use crate::task::TaskComparison;

/// What is reported over tasks: accuracies, which have the same scale everywhere.
const MEASURES: [Measure; 3] = [Measure::LastAccuracy, Measure::PeakAccuracy, Measure::LastReward];

/// The arms that all tasks have, in a measure that all of their runs have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AcrossTasks {
    pub measure: Measure,
    pub tasks: Vec<String>,
    pub arms: Vec<ArmAcrossTasks>,
    /// Comparisons of each pair of arms.
    pub pairs: Vec<PairAcrossTasks>,
}

/// An arm over tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmAcrossTasks {
    pub arm: Arm,
    /// How tables call it.
    pub label: String,
    /// The fewest seeds of a task.
    pub seeds: usize,
    /// Mean of the middle half of all seeds of all tasks.
    pub interquartile_mean: f64,
    /// Bootstrap interval over seeds, resampled within each task; absent where seeds do not differ.
    pub interval: Option<Interval>,
}

/// Two arms over tasks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairAcrossTasks {
    /// The first arm, by position among the arms.
    pub first: usize,
    /// The second, after the first.
    pub second: usize,
    /// The probability that a run of the first is higher than a run of the second on the same task, mean over tasks.
    pub probability: f64,
    /// Interval of the probability, as if seeds were not paired.
    pub interval: Interval,
}

/// One for each measure that all tasks have. Empty where there is one task alone.
pub(crate) fn across_tasks(tasks: &[TaskComparison], resampling: Resampling) -> Result<Vec<AcrossTasks>, FieldError> {
    if tasks.len() < 2 {
        return Ok(Vec::new());
    }
    let all = MEASURES.into_iter().map(|measure| across(measure, tasks, resampling));
    Ok(all.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn across(
    measure: Measure,
    tasks: &[TaskComparison],
    resampling: Resampling,
) -> Result<Option<AcrossTasks>, FieldError> {
    let scored: Vec<(&Arm, Vec<Vec<f64>>)> = tasks[0]
        .arms
        .iter()
        .filter_map(|summary| Some((&summary.arm, scores(&summary.arm, measure, tasks)?)))
        .collect();
    if scored.is_empty() {
        return Ok(None);
    }
    let mut arms = Vec::new();
    let mut pairs = Vec::new();
    for (first, (arm, scores)) in scored.iter().enumerate() {
        let mean = InterquartileMean::of(scores, Confidence::P95, resampling)?;
        arms.push(ArmAcrossTasks {
            arm: (*arm).clone(),
            label: arm.label(),
            seeds: scores.iter().map(Vec::len).min().unwrap_or(0),
            interquartile_mean: mean.value,
            interval: mean.interval,
        });
        for (second, (_, others)) in scored.iter().enumerate().skip(first + 1) {
            let Improvement { value: probability, interval } = Improvement::of(scores, others, Confidence::P95)?;
            pairs.push(PairAcrossTasks { first, second, probability, interval });
        }
    }
    let tasks = tasks.iter().map(|task| task.task.clone()).collect();
    Ok(Some(AcrossTasks { measure, tasks, arms, pairs }))
}

/// The seeds' values by task. `None` where a task has fewer than two.
fn scores(arm: &Arm, measure: Measure, tasks: &[TaskComparison]) -> Option<Vec<Vec<f64>>> {
    let values_by_seed = |task: &TaskComparison| {
        let summary = task.arms.iter().find(|summary| summary.arm == *arm)?;
        let values = &summary.measure(measure)?.by_seed;
        (values.len() >= 2).then(|| values.clone())
    };
    tasks.iter().map(values_by_seed).collect()
}
