//! Curves over seeds for plots: mean and interval by step.

use std::collections::BTreeMap;

use evenkeel_statistics::{Curve, Interval};
use serde::{Deserialize, Serialize};

use crate::mean::Mean;
use crate::outcome::{Accuracies, RunValues};
use crate::training::Training;

/// A curve of an arm over its seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// The arm, by position among the task's arms.
    pub arm: usize,
    pub quantity: Quantity,
    pub points: Vec<BandPoint>,
}

/// What a band shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Mean raw reward of a training step.
    Reward,
    /// mean@k, average over benchmarks.
    Accuracy,
    /// best@k, average over benchmarks.
    Best,
    /// What the paper plots over steps.
    Training(Training),
    /// mean@k of one of several benchmarks.
    BenchmarkAccuracy { benchmark: String },
}

/// A step of a band.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BandPoint {
    pub step: u64,
    pub mean: f64,
    /// Student's interval of the mean (95 %), where it has one. Each step's by itself: not of the whole curve.
    pub interval: Option<Interval>,
    /// Seeds with a value at this step.
    pub seeds: usize,
}

/// The bands of an arm: reward, accuracies, what the paper plots, and the benchmarks where there are several.
pub(crate) fn bands(arm: usize, outcomes: &[RunValues]) -> Vec<Band> {
    let band =
        |quantity, curves: Vec<&Curve>| (!curves.is_empty()).then(|| Band { arm, quantity, points: points(&curves) });
    let average = |of: fn(&Accuracies) -> Option<&Curve>| -> Vec<&Curve> {
        outcomes.iter().filter_map(|outcome| outcome.average.as_ref().and_then(of)).collect()
    };
    let mut bands = vec![
        band(Quantity::Reward, outcomes.iter().filter_map(|outcome| outcome.reward.as_ref()).collect()),
        band(Quantity::Accuracy, average(|accuracies| Some(&accuracies.mean.curve))),
        band(Quantity::Best, average(|accuracies| accuracies.best.as_ref().map(|best| &best.curve))),
    ];
    for quantity in Training::ALL {
        let curves = outcomes.iter().filter_map(|outcome| outcome.training.get(&quantity));
        bands.push(band(Quantity::Training(quantity), curves.collect()));
    }
    let benchmarks = outcomes.first().map(|outcome| &outcome.benchmarks).filter(|benchmarks| benchmarks.len() > 1);
    for name in benchmarks.into_iter().flat_map(BTreeMap::keys) {
        let curves = outcomes.iter().filter_map(|outcome| outcome.benchmarks.get(name)).map(|found| &found.mean.curve);
        bands.push(band(Quantity::BenchmarkAccuracy { benchmark: name.clone() }, curves.collect()));
    }
    bands.into_iter().flatten().collect()
}

fn points(curves: &[&Curve]) -> Vec<BandPoint> {
    let mut by_step: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (step, value) in curves.iter().flat_map(|curve| curve.points()) {
        by_step.entry(*step).or_default().push(*value);
    }
    let point = |(step, values): (u64, Vec<f64>)| {
        let Mean { value: mean, interval, seeds, .. } = Mean::of_values(&values)?;
        Some(BandPoint { step, mean, interval, seeds })
    };
    by_step.into_iter().filter_map(point).collect()
}
