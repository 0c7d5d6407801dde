//! What a finished run has for every measure.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_statistics::{Curve, peak_by_chance};

use crate::collapse::{Collapse, ENDS, reward_curve};
use crate::measure::Measure;
use crate::run::{Evaluation, Noise, Run, Score, Scores};
use crate::training::Training;

/// The curve of an accuracy with what its peak is by chance.
#[derive(Debug, Clone)]
pub(crate) struct Accuracy {
    pub(crate) curve: Curve,
    /// The expected height of the peak above an accuracy that does not change; `None` where the noise of an evaluation
    /// is unknown.
    pub(crate) by_chance: Option<PeakByChance>,
}

/// By how much the highest of several evaluations is expected to stand above an accuracy that does not change, which is
/// also the expected drop from it to the last one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PeakByChance {
    pub expected: f64,
    /// Whether the value is an upper bound, because it was computed from standard errors over problems.
    pub is_bound: bool,
}

impl PeakByChance {
    /// The expectation for a run's evaluations. `None` where the noise of one of them is unknown.
    pub fn of(evaluations: impl IntoIterator<Item = Score>) -> Option<Self> {
        let noise: Option<Vec<Noise>> = evaluations.into_iter().map(|score| score.noise()).collect();
        Self::of_noise(&noise?)
    }

    fn of_noise(noise: &[Noise]) -> Option<Self> {
        let errors: Vec<f64> = noise.iter().map(|noise| noise.error).collect();
        let is_bound = noise.iter().any(|noise| noise.is_bound);
        Some(Self { expected: peak_by_chance(&errors).ok()?, is_bound })
    }
}

/// mean@k and best@k of a benchmark, or of the average of several.
#[derive(Debug, Clone)]
pub(crate) struct Accuracies {
    /// Samples for each problem; `None` for benchmarks with different numbers.
    pub(crate) samples: Option<u32>,
    pub(crate) mean: Accuracy,
    pub(crate) best: Option<Accuracy>,
    /// best@k by draws with replacement.
    pub(crate) drawn: Option<Curve>,
}

#[derive(Debug, Clone)]
pub(crate) struct RunValues {
    pub(crate) seed: u64,
    pub(crate) rule: Option<String>,
    pub(crate) collapse: Option<Collapse>,
    /// Evaluations that were not verified.
    pub(crate) unverified: usize,
    pub(crate) reward: Option<Curve>,
    pub(crate) training: BTreeMap<Training, Curve>,
    /// The average over benchmarks.
    pub(crate) average: Option<Accuracies>,
    pub(crate) benchmarks: BTreeMap<String, Accuracies>,
    values: BTreeMap<Measure, f64>,
    /// Whether the reward that was requested was reached.
    pub(crate) is_reward_reached: bool,
}

impl RunValues {
    /// The values of a validated run. `averaged` are the benchmarks that count in the average, `reward` is what
    /// [`Measure::StepsToReward`] counts to.
    pub(crate) fn of(run: &Run, averaged: &BTreeSet<String>, reward: Option<f64>) -> Self {
        let names: BTreeSet<&String> =
            run.evaluations.iter().flat_map(|evaluation| evaluation.benchmarks.keys()).collect();
        let alone =
            |name: &String| Some((name.clone(), accuracies(&run.evaluations, &BTreeSet::from([name.clone()]))?));
        let benchmarks = names.into_iter().filter_map(alone).collect();
        let mut outcome = Self {
            seed: run.seed,
            rule: run.rule.clone(),
            unverified: run.evaluations.iter().filter(|evaluation| evaluation.verified == Some(false)).count(),
            collapse: Collapse::of(&run.rewards),
            reward: reward_curve(&run.rewards),
            training: run.training.iter().filter_map(|(of, points)| Some((*of, training_curve(points)?))).collect(),
            average: accuracies(&run.evaluations, averaged),
            benchmarks,
            values: BTreeMap::new(),
            is_reward_reached: false,
        };
        outcome.values = outcome.accuracy_values();
        outcome.add_reward_values(reward);
        outcome
    }

    /// The value of a measure, where the run has what it is computed from.
    pub(crate) fn value(&self, measure: Measure) -> Option<f64> {
        self.values.get(&measure).copied()
    }

    /// What a peak or a drop is by chance.
    pub(crate) fn by_chance(&self, measure: Measure) -> Option<PeakByChance> {
        let average = self.average.as_ref()?;
        match measure {
            Measure::PeakAccuracy | Measure::AccuracyDrop => average.mean.by_chance,
            Measure::PeakBest | Measure::BestDrop => average.best.as_ref()?.by_chance,
            _ => None,
        }
    }

    /// The mean of the benchmarks' own peaks, each at a step of its own, of mean@k and best@k: the other reading of an
    /// average peak.
    pub(crate) fn mean_of_peaks(&self, averaged: &BTreeSet<String>) -> (Option<f64>, Option<f64>) {
        let mean_over_benchmarks = |curve: &dyn Fn(&Accuracies) -> Option<f64>| {
            let peaks = self.benchmarks.iter().filter(|(name, _)| averaged.contains(*name));
            let peaks: Vec<f64> = peaks.map(|(_, accuracies)| curve(accuracies)).collect::<Option<_>>()?;
            (!peaks.is_empty()).then(|| peaks.iter().sum::<f64>() / peaks.len() as f64)
        };
        (
            mean_over_benchmarks(&|accuracies| Some(accuracies.mean.curve.peak().1)),
            mean_over_benchmarks(&|accuracies| Some(accuracies.best.as_ref()?.curve.peak().1)),
        )
    }

    fn accuracy_values(&self) -> BTreeMap<Measure, f64> {
        let Some(average) = &self.average else { return BTreeMap::new() };
        let mean = &average.mean.curve;
        let mut values = BTreeMap::from([
            (Measure::LastAccuracy, mean.last()),
            (Measure::PeakAccuracy, mean.peak().1),
            (Measure::AccuracyDrop, mean.drop()),
            (Measure::AccuracyArea, mean.area()),
        ]);
        if let Some(Accuracy { curve: best, .. }) = &average.best {
            let of_best = [
                (Measure::LastBest, best.last()),
                (Measure::PeakBest, best.peak().1),
                (Measure::BestDrop, best.drop()),
            ];
            values.extend(of_best);
        }
        values
    }

    fn add_reward_values(&mut self, threshold: Option<f64>) {
        let Some(curve) = &self.reward else { return };
        self.values.insert(Measure::LastReward, curve.last_mean(ENDS));
        self.values.insert(Measure::RewardArea, curve.area());
        if let Some(threshold) = threshold {
            let reached = curve.steps_to(threshold, ENDS.min(curve.points().len()));
            let last_step = curve.points()[curve.points().len() - 1].0;
            self.is_reward_reached = reached.is_some();
            self.values.insert(Measure::StepsToReward, reached.unwrap_or(last_step) as f64);
        }
    }
}

/// The average of benchmarks over the evaluations. `None` where there is no evaluation or none of the benchmarks.
fn accuracies(evaluations: &[Evaluation], averaged: &BTreeSet<String>) -> Option<Accuracies> {
    let chosen = |evaluation: &Evaluation| -> Vec<Scores> {
        evaluation.benchmarks.iter().filter(|(name, _)| averaged.contains(*name)).map(|(_, scores)| *scores).collect()
    };
    let by_step: Vec<(u64, Vec<Scores>)> = evaluations.iter().map(|e| (e.step, chosen(e))).collect();
    let samples: BTreeSet<u32> = by_step.iter().flat_map(|(_, scores)| scores).map(|scores| scores.samples).collect();
    let average_of = |metric: fn(&Scores) -> Option<Score>| {
        let points: Option<Vec<_>> =
            by_step.iter().map(|(step, scores)| Some((*step, average(scores, metric)?))).collect();
        accuracy(&points?)
    };
    Some(Accuracies {
        samples: samples.first().copied().filter(|_| samples.len() == 1),
        mean: average_of(|scores| Some(scores.mean))?,
        best: average_of(|scores| scores.best),
        drawn: drawn(&by_step),
    })
}

/// The average of best@k by draws with replacement; `None` where a benchmark lacks it.
fn drawn(by_step: &[(u64, Vec<Scores>)]) -> Option<Curve> {
    let average = |(step, scores): &(u64, Vec<Scores>)| {
        let values: Vec<f64> = scores.iter().map(|scores| scores.drawn).collect::<Option<_>>()?;
        Some((*step, values.iter().sum::<f64>() / values.len() as f64))
    };
    Curve::new("best@k/mean", by_step.iter().map(average).collect::<Option<_>>()?).ok()
}

fn training_curve(points: &[(u64, f64)]) -> Option<Curve> {
    Curve::new("training", points.to_vec()).ok()
}

fn accuracy(points: &[(u64, (f64, Option<Noise>))]) -> Option<Accuracy> {
    let curve = Curve::new("accuracy", points.iter().map(|(step, (value, _))| (*step, *value)).collect()).ok()?;
    let noise: Option<Vec<Noise>> = points.iter().map(|(_, (_, noise))| *noise).collect();
    Some(Accuracy { curve, by_chance: noise.and_then(|noise| PeakByChance::of_noise(&noise)) })
}

/// The mean of the benchmarks' scores, whose noise is independent.
fn average(scores: &[Scores], metric: fn(&Scores) -> Option<Score>) -> Option<(f64, Option<Noise>)> {
    let scores: Vec<Score> = scores.iter().map(metric).collect::<Option<_>>()?;
    if scores.is_empty() {
        return None;
    }
    let count = scores.len() as f64;
    let value = scores.iter().map(|score| score.value).sum::<f64>() / count;
    let noise: Option<Vec<Noise>> = scores.iter().map(Score::noise).collect();
    let noise = noise.map(|noise| Noise {
        error: noise.iter().map(|noise| noise.error * noise.error).sum::<f64>().sqrt() / count,
        is_bound: noise.iter().any(|noise| noise.is_bound),
    });
    Some((value, noise))
}
