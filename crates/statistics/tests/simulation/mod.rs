//! How often intervals have the true value in them, by simulation: used by the test of coverage and by the example that
//! prints the table of docs/statistics.md.

use evenkeel_seeds::{ChaCha12Rng, RngCore, Stream, rng};
use evenkeel_statistics::{Confidence, Improvement, InterquartileMean, Interval, Resampling, Sample};
use rand_distr::{Binomial, Distribution, Exp1, StandardNormal, StudentT};

/// Numbers of seeds that are simulated.
pub(crate) const COUNTS: [usize; 4] = [3, 5, 8, 16];
/// Tasks of the interquartile mean.
pub(crate) const TASKS: usize = 4;
/// Resamples of a bootstrap: as many as the references draw.
const RESAMPLES: usize = 999;

/// What is drawn for a seed: the difference of two arms, with its true mean.
pub(crate) struct Differences {
    pub(crate) name: &'static str,
    pub(crate) mean: f64,
    pub(crate) draw: fn(&mut ChaCha12Rng) -> f64,
}

/// The distributions of tests/golden/make_references.py.
pub(crate) static DIFFERENCES: [Differences; 5] = [
    Differences { name: "normal", mean: 0.0, draw: |rng| StandardNormal.sample(rng) },
    Differences {
        name: "skewed",
        mean: 0.0,
        draw: |rng| {
            let x: f64 = Exp1.sample(rng);
            x - 1.0
        },
    },
    Differences { name: "heavy-tailed", mean: 0.0, draw: |rng| StudentT::new(3.0).unwrap().sample(rng) },
    Differences { name: "discrete", mean: 0.1, draw: |rng| accuracy(0.6, rng) - accuracy(0.5, rng) },
    Differences { name: "ceiling", mean: 0.03, draw: |rng| accuracy(0.98, rng) - accuracy(0.95, rng) },
];

/// The share of right answers to 30 problems.
fn accuracy(probability: f64, rng: &mut ChaCha12Rng) -> f64 {
    Binomial::new(30, probability).unwrap().sample(rng) as f64 / 30.0
}

/// How many of the intervals have the true value in them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coverage {
    pub(crate) inside: usize,
    /// Simulated experiments that have an interval: those without spread have none.
    pub(crate) intervals: usize,
    pub(crate) experiments: usize,
}

impl Coverage {
    pub(crate) fn share(&self) -> f64 {
        self.inside as f64 / self.intervals as f64
    }

    /// Simulates experiments; each gets random numbers for its data and a seed for its bootstrap.
    fn of(experiments: usize, truth: f64, mut interval: impl FnMut(&mut ChaCha12Rng, u64) -> Option<Interval>) -> Self {
        // Seeds of bootstraps are small, that of the data is not: no two streams are the same.
        let mut data = rng(u64::MAX, Stream::Bootstrap);
        let found = (0..experiments as u64).filter_map(|seed| interval(&mut data, seed));
        let mut inside = 0;
        let mut intervals = 0;
        for Interval { low, high } in found {
            intervals += 1;
            // Accuracies are multiples of 1/30 up to rounding.
            inside += usize::from(low - 1e-12 <= truth && truth <= high + 1e-12);
        }
        Self { inside, intervals, experiments }
    }
}

/// An interval of a mean: of values, by a seed.
pub(crate) type MeanInterval = fn(&[f64], u64) -> Option<Interval>;

pub(crate) fn student(values: &[f64], _: u64) -> Option<Interval> {
    sample(values).t_interval(Confidence::P95)
}

/// Refused for fewer than 5 values.
pub(crate) fn studentised(values: &[f64], seed: u64) -> Option<Interval> {
    sample(values).studentised_interval(Confidence::P95, resampling(seed)).ok()?
}

/// What is often done and not offered by the crate: the 2.5 % and 97.5 % quantiles of the means of resamples.
pub(crate) fn percentile(values: &[f64], seed: u64) -> Option<Interval> {
    sample(values).mean().standard_error?;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    Some(percentiles(seed, |draw| {
        let resample: Vec<f64> = values.iter().map(|_| values[draw(values.len())]).collect();
        mean(&resample)
    }))
}

fn sample(values: &[f64]) -> Sample {
    Sample::new("values", values.to_vec()).unwrap()
}

fn resampling(seed: u64) -> Resampling {
    Resampling::new(RESAMPLES, seed).unwrap()
}

fn percentiles(seed: u64, mut statistic: impl FnMut(&mut dyn FnMut(usize) -> usize) -> f64) -> Interval {
    let mut rng = rng(seed, Stream::SignFlips);
    let mut draw = |count: usize| ((u64::from(rng.next_u32()) * count as u64) >> 32) as usize;
    let mut statistics: Vec<f64> = (0..RESAMPLES).map(|_| statistic(&mut draw)).collect();
    statistics.sort_unstable_by(f64::total_cmp);
    Interval { low: statistics[RESAMPLES / 40], high: statistics[RESAMPLES - 1 - RESAMPLES / 40] }
}

/// The coverage of an interval of the mean of this many differences.
pub(crate) fn of_mean(differences: &Differences, count: usize, interval: MeanInterval, experiments: usize) -> Coverage {
    Coverage::of(experiments, differences.mean, |rng, seed| {
        let values: Vec<f64> = (0..count).map(|_| (differences.draw)(rng)).collect();
        interval(&values, seed)
    })
}

/// Scores of an arm on four tasks: the tasks' levels are `apart` from each other, in standard deviations of a run.
fn scores(differences: &Differences, runs: usize, apart: f64, rng: &mut ChaCha12Rng) -> Vec<Vec<f64>> {
    let of_task = |task: usize| (0..runs).map(|_| task as f64 * apart + (differences.draw)(rng)).collect();
    (0..TASKS).map(of_task).collect()
}

/// The interquartile mean of a million runs on each task.
pub(crate) fn true_interquartile_mean(differences: &Differences, apart: f64) -> f64 {
    let mut rng = rng(u64::MAX, Stream::SignFlips);
    let mut all = scores(differences, 1_000_000 / TASKS, apart, &mut rng).concat();
    interquartile_mean(&mut all)
}

fn interquartile_mean(scores: &mut [f64]) -> f64 {
    scores.sort_unstable_by(f64::total_cmp);
    let cut = scores.len() / 4;
    let middle = &scores[cut..scores.len() - cut];
    middle.iter().sum::<f64>() / middle.len() as f64
}

/// The coverage of the interval of an interquartile mean over four tasks; of rliable's with `by_percentiles`.
pub(crate) fn of_interquartile_mean(
    differences: &Differences,
    (runs, apart): (usize, f64),
    truth: f64,
    by_percentiles: bool,
    experiments: usize,
) -> Coverage {
    Coverage::of(experiments, truth, |rng, seed| {
        let tasks = scores(differences, runs, apart, rng);
        if by_percentiles {
            return Some(percentiles(seed, |draw| {
                let resample = |task: &Vec<f64>| task.iter().map(|_| task[draw(task.len())]).collect::<Vec<_>>();
                interquartile_mean(&mut tasks.iter().map(resample).collect::<Vec<_>>().concat())
            }));
        }
        InterquartileMean::of(&tasks, Confidence::P95, resampling(seed)).unwrap().interval
    })
}

/// The coverage of the interval of a probability of improvement over this many tasks, between normal scores whose means
/// are `shift` apart; of rliable's with `by_percentiles`.
pub(crate) fn of_improvement(
    tasks: usize,
    runs: usize,
    shift: f64,
    by_percentiles: bool,
    experiments: usize,
) -> Coverage {
    // The difference of two standard normal values has variance 2.
    let truth = 0.5 * libm::erfc(-shift / 2.0);
    Coverage::of(experiments, truth, |rng, seed| {
        let mut arm = |shift: f64| -> Vec<Vec<f64>> {
            let mut normal = || -> f64 { StandardNormal.sample(rng) };
            (0..tasks).map(|_| (0..runs).map(|_| shift + normal()).collect()).collect()
        };
        let first = arm(shift);
        let second = arm(0.0);
        if by_percentiles {
            return Some(percentiles(seed, |draw| {
                let mut resample = |task: &Vec<f64>| task.iter().map(|_| task[draw(task.len())]).collect::<Vec<_>>();
                let wins = first.iter().zip(&second).map(|(one, other)| {
                    let one = resample(one);
                    let other = resample(other);
                    one.iter().flat_map(|a| other.iter().map(move |b| f64::from(u8::from(a > b)))).sum::<f64>()
                });
                wins.sum::<f64>() / (tasks * runs * runs) as f64
            }));
        }
        Some(Improvement::of(&first, &second, Confidence::P95).unwrap().interval)
    })
}
