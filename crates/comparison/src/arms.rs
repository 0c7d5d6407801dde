//! Each arm by itself: means over seeds, peaks compared with chance, collapsed and failed seeds.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::collapse::Collapse;
use crate::late_loss::LateLoss;
use crate::mean::Mean;
use crate::measure::Measure;
use crate::outcome::{Accuracies, Accuracy, PeakByChance, RunValues};
use crate::run::Arm;

/// An arm of a task over its seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmSummary {
    pub arm: Arm,
    /// How tables call it.
    pub label: String,
    /// The canonical name of its aggregation rule, where it is known.
    pub rule: Option<String>,
    /// Seeds that finished; collapsed ones are among them.
    pub seeds: Vec<u64>,
    /// Seeds that did not finish. No number knows them.
    pub failed: Vec<FailedSeed>,
    /// Seeds that collapsed. Every number counts them.
    pub collapsed: Vec<CollapsedSeed>,
    /// Seeds of which some evaluation was not verified. Every number counts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<u64>,
    /// The measures that the runs have.
    pub measures: Vec<MeasureSummary>,
    /// The columns of the paper's Table 1 for each benchmark; those of the average are among the measures.
    pub benchmarks: Vec<BenchmarkSummary>,
    /// What else the columns of that table may mean.
    pub other_readings: OtherReadings,
    /// The policy-gradient loss late in its runs.
    pub loss: Option<LateLoss>,
}

/// Columns of the paper's Table 1 by other definitions, since it gives none. Each is absent where a run lacks what it
/// is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OtherReadings {
    /// Peak mean@k as the average of the benchmarks' peaks, each at a step of its own.
    pub mean_of_peaks: Option<Mean>,
    /// Peak best@k as the average of the benchmarks' peaks.
    pub mean_of_best_peaks: Option<Mean>,
    /// Peak best@k by k draws with replacement, verl's `best@k/mean`.
    pub peak_drawn: Option<Mean>,
    /// best@k of the last evaluation, by k draws with replacement.
    pub last_drawn: Option<Mean>,
}

impl OtherReadings {
    fn of(outcomes: &[RunValues], averaged: &BTreeSet<String>) -> Self {
        let mean = |of: &dyn Fn(&RunValues) -> Option<f64>| {
            Mean::of_values(&outcomes.iter().map(of).collect::<Option<Vec<f64>>>()?)
        };
        let drawn = |outcome: &RunValues| outcome.average.as_ref()?.drawn.clone();
        Self {
            mean_of_peaks: mean(&|outcome| outcome.mean_of_peaks(averaged).0),
            mean_of_best_peaks: mean(&|outcome| outcome.mean_of_peaks(averaged).1),
            peak_drawn: mean(&|outcome| Some(drawn(outcome)?.peak().1)),
            last_drawn: mean(&|outcome| Some(drawn(outcome)?.last())),
        }
    }
}

/// A seed without a result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FailedSeed {
    pub seed: u64,
    pub reason: String,
}

/// A seed that collapsed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CollapsedSeed {
    pub seed: u64,
    pub collapse: Collapse,
}

/// A measure of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasureSummary {
    pub measure: Measure,
    pub mean: Mean,
    /// Value of each seed, in the order of the seeds.
    pub by_seed: Vec<f64>,
    /// For a peak or a drop: the part that chance explains, where the noise of the evaluations is known.
    pub by_chance: Option<ByChance>,
    /// For the steps to a reward: number of seeds that never reached it and count with their last step.
    pub not_reached: Option<usize>,
}

/// What a peak or a drop is by chance, if the accuracy did not change between the evaluations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ByChance {
    /// The part that is expected by chance alone: of a peak above the accuracy, and of a drop. Mean over seeds.
    pub expected: f64,
    /// What is left of the peak or the drop without that part.
    pub beyond: Mean,
    /// Whether the expectation is an upper bound: the noise of repeated sampling is unknown, and the larger standard
    /// error over problems took its place.
    pub is_bound: bool,
}

/// Peak and last accuracies of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkSummary {
    pub name: String,
    /// Samples for each problem (k).
    pub samples: Option<u32>,
    pub peak_accuracy: Peak,
    /// Highest best@k, which another evaluation may have.
    pub peak_best: Option<Peak>,
    pub last_accuracy: Mean,
    pub last_best: Option<Mean>,
    /// Highest mean@k of each seed, in their order.
    pub peak_by_seed: Vec<f64>,
    /// mean@k of the last evaluation of each seed.
    pub last_by_seed: Vec<f64>,
}

/// A peak over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// Mean of the seeds' peaks, each at a step of its own.
    pub mean: Mean,
    /// What chance makes of it.
    pub by_chance: Option<ByChance>,
}

impl ArmSummary {
    /// Summarises the outcomes of an arm, which are in ascending order of their seeds.
    pub(crate) fn of(arm: Arm, outcomes: &[RunValues], failed: Vec<FailedSeed>, averaged: &BTreeSet<String>) -> Self {
        let collapsed = |outcome: &RunValues| Some(CollapsedSeed { seed: outcome.seed, collapse: outcome.collapse? });
        Self {
            label: arm.label(),
            rule: outcomes.iter().find_map(|outcome| outcome.rule.clone()),
            arm,
            seeds: outcomes.iter().map(|outcome| outcome.seed).collect(),
            failed,
            collapsed: outcomes.iter().filter_map(collapsed).collect(),
            unverified: outcomes.iter().filter(|outcome| outcome.unverified > 0).map(|outcome| outcome.seed).collect(),
            measures: Measure::ALL.into_iter().filter_map(|measure| MeasureSummary::of(measure, outcomes)).collect(),
            benchmarks: benchmarks(outcomes),
            other_readings: OtherReadings::of(outcomes, averaged),
            loss: LateLoss::of(outcomes),
        }
    }

    /// A measure, where the runs have it.
    pub fn measure(&self, measure: Measure) -> Option<&MeasureSummary> {
        self.measures.iter().find(|summary| summary.measure == measure)
    }
}

impl MeasureSummary {
    fn of(measure: Measure, outcomes: &[RunValues]) -> Option<Self> {
        let by_seed: Vec<f64> = outcomes.iter().map(|outcome| outcome.value(measure)).collect::<Option<_>>()?;
        let chances: Option<Vec<PeakByChance>> = outcomes.iter().map(|outcome| outcome.by_chance(measure)).collect();
        let not_reached = || outcomes.iter().filter(|outcome| !outcome.is_reward_reached).count();
        Some(Self {
            measure,
            mean: Mean::of_values(&by_seed)?,
            by_chance: chances.and_then(|chances| ByChance::of(&by_seed, &chances)),
            not_reached: (measure == Measure::StepsToReward).then(not_reached),
            by_seed,
        })
    }
}

impl ByChance {
    fn of(values: &[f64], chances: &[PeakByChance]) -> Option<Self> {
        let beyond: Vec<f64> = values.iter().zip(chances).map(|(value, chance)| value - chance.expected).collect();
        let expected = chances.iter().map(|chance| chance.expected).sum::<f64>() / chances.len() as f64;
        let is_bound = chances.iter().any(|chance| chance.is_bound);
        Some(Self { expected, beyond: Mean::of_values(&beyond)?, is_bound })
    }
}

fn benchmarks(outcomes: &[RunValues]) -> Vec<BenchmarkSummary> {
    let Some(first) = outcomes.first() else { return Vec::new() };
    let peak_means = |(name, known): (&String, &Accuracies)| {
        let all: Vec<&Accuracies> =
            outcomes.iter().map(|outcome| outcome.benchmarks.get(name)).collect::<Option<_>>()?;
        let mean: Vec<&Accuracy> = all.iter().map(|accuracies| &accuracies.mean).collect();
        let best: Option<Vec<&Accuracy>> = all.iter().map(|accuracies| accuracies.best.as_ref()).collect();
        Some(BenchmarkSummary {
            name: name.clone(),
            samples: known.samples,
            peak_accuracy: peak(&mean)?,
            peak_best: best.as_deref().and_then(peak),
            last_accuracy: last(&mean)?,
            last_best: best.as_deref().and_then(last),
            peak_by_seed: mean.iter().map(|accuracy| accuracy.curve.peak().1).collect(),
            last_by_seed: mean.iter().map(|accuracy| accuracy.curve.last()).collect(),
        })
    };
    first.benchmarks.iter().filter_map(peak_means).collect()
}

fn peak(accuracies: &[&Accuracy]) -> Option<Peak> {
    let values: Vec<f64> = accuracies.iter().map(|accuracy| accuracy.curve.peak().1).collect();
    let chances: Option<Vec<PeakByChance>> = accuracies.iter().map(|accuracy| accuracy.by_chance).collect();
    Some(Peak {
        mean: Mean::of_values(&values)?,
        by_chance: chances.and_then(|chances| ByChance::of(&values, &chances)),
    })
}

fn last(accuracies: &[&Accuracy]) -> Option<Mean> {
    Mean::of_values(&accuracies.iter().map(|accuracy| accuracy.curve.last()).collect::<Vec<_>>())
}
