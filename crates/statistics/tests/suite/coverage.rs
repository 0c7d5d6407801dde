//! How often an interval of 95 % has the true value in it, and how often a test finds what is not there.
//!
//! A share of N experiments has the standard error `sqrt(p (1 - p) / N)`; bounds are four and a half of them, which a
//! correct interval misses once in 150,000 simulations. The random numbers are fixed.

use crate::simulation::{self, COUNTS, Coverage, DIFFERENCES, MeanInterval};
use evenkeel_seeds::{Stream, rng};
use evenkeel_statistics::{Sample, holm, peak_by_chance, smallest_p};
use rand_distr::{Distribution, StandardNormal};
use serde_json::Value;

/// Experiments with a bootstrap; methods that draw nothing take more.
const EXPERIMENTS: usize = 1_500;
const DEVIATIONS: f64 = 4.5;

fn variance(share: f64, count: f64) -> f64 {
    share * (1.0 - share) / count
}

/// The coverage is a known share, which was itself simulated with this many experiments.
fn assert_covers(coverage: &Coverage, known: f64, known_from: f64, what: &str) {
    let bound = DEVIATIONS * (variance(known, coverage.intervals as f64) + variance(known, known_from)).sqrt();
    let share = coverage.share();
    assert!((share - known).abs() <= bound, "{what}: {share:.4} and not {known:.4} ± {bound:.4}");
}

/// The coverage is within bounds that were read off once and are stated in docs/statistics.md.
fn assert_between(coverage: &Coverage, low: f64, high: f64, what: &str) {
    let bound = |share: f64| DEVIATIONS * variance(share, coverage.intervals as f64).sqrt();
    let share = coverage.share();
    assert!(share >= low - bound(low) && share <= high + bound(high), "{what}: {share:.4} and not {low} to {high}");
}

fn references() -> Vec<Value> {
    let references: Value = serde_json::from_str(include_str!("../golden/references.json")).unwrap();
    references["coverage"].as_array().unwrap().clone()
}

/// Compares the coverage with numpy's simulation of the same interval.
fn compare_with_numpy(method: &str, interval: MeanInterval, experiments: usize) {
    let mut compared = 0;
    for row in references() {
        let Some(known) = row[method].as_f64() else { continue };
        let from = row[format!("{method}_intervals")].as_f64().unwrap_or(400_000.0);
        let name = row["name"].as_str().unwrap();
        let count = row["count"].as_u64().unwrap() as usize;
        let differences = DIFFERENCES.iter().find(|differences| differences.name == name).unwrap();
        let coverage = simulation::of_mean(differences, count, interval, experiments);
        assert_covers(&coverage, known, from, &format!("{method}, {name}, {count} seeds"));
        compared += 1;
    }
    assert!(compared >= 15, "{compared} rows of references.json");
}

#[test]
fn students_interval_of_normal_differences_covers_95_percent_with_any_number_of_seeds() {
    for count in COUNTS {
        let coverage = simulation::of_mean(&DIFFERENCES[0], count, simulation::student, 40_000);
        assert_eq!(coverage.intervals, coverage.experiments);
        assert_covers(&coverage, 0.95, f64::INFINITY, &format!("{count} seeds"));
    }
}

#[test]
fn students_interval_covers_what_it_does_elsewhere() {
    compare_with_numpy("t", simulation::student, 20_000);
}

#[test]
fn the_studentised_bootstrap_covers_what_it_does_elsewhere() {
    compare_with_numpy("studentised", simulation::studentised, EXPERIMENTS);
}

/// Why it is not offered: 84 % with 5 seeds, 88 % with 8.
#[test]
fn the_percentile_bootstrap_covers_too_little_with_few_seeds() {
    compare_with_numpy("percentile", simulation::percentile, EXPERIMENTS);
    for (count, known) in [(5, 0.84), (8, 0.885)] {
        let coverage = simulation::of_mean(&DIFFERENCES[0], count, simulation::percentile, EXPERIMENTS);
        assert_between(&coverage, known - 0.01, known + 0.015, &format!("{count} seeds"));
    }
}

#[test]
fn the_interquartile_mean_covers_more_than_with_percentiles() {
    let normal = &DIFFERENCES[0];
    for apart in [0.0, 1.0, 20.0] {
        let truth = simulation::true_interquartile_mean(normal, apart);
        for (runs, low) in [(3, 0.91), (5, 0.93), (8, 0.935)] {
            let cover = |percentiles| simulation::of_interquartile_mean(normal, (runs, apart), truth, percentiles, 400);
            let what = format!("{runs} runs, tasks {apart} apart");
            let corrected = cover(false);
            let percentiles = cover(true);
            assert_between(&corrected, low, 0.985, &what);
            assert!(percentiles.share() < corrected.share(), "{what}: {percentiles:?} {corrected:?}");
        }
    }
}

#[test]
fn a_probability_of_improvement_covers_where_percentiles_fail() {
    for (tasks, runs, shift) in
        [(1, 5, 0.0), (1, 5, 1.0), (1, 8, 2.0), (4, 3, 0.0), (4, 5, 1.0), (4, 8, 0.0), (4, 8, 2.0)]
    {
        let coverage = simulation::of_improvement(tasks, runs, shift, false, 6_000);
        assert_between(&coverage, 0.94, 0.97, &format!("{tasks} tasks, {runs} runs, shift {shift}"));
    }
    // Every tenth pair of equal arms with three runs is a clean sweep, from which any interval would have to
    // conclude nothing.
    let three = simulation::of_improvement(1, 3, 0.0, false, 6_000);
    assert_between(&three, 0.9, 0.9, "3 runs of 1 task");
    let percentiles = simulation::of_improvement(1, 5, 2.0, true, 1_500);
    assert!(percentiles.share() < 0.75, "{percentiles:?}: half of the experiments are a clean sweep");
}

/// With n pairs the probabilities are multiples of 2 / 2^n: the largest that does not exceed 5 % is what the exact test
/// rejects.
#[test]
fn the_sign_flip_test_finds_what_is_not_there_as_often_as_it_says() {
    for count in COUNTS {
        let attainable = (0.05 / smallest_p(count)).floor() * smallest_p(count);
        let mut data = rng(9, Stream::Bootstrap);
        let experiments = 10_000;
        let rejected = (0..experiments).filter(|_| {
            let values: Vec<f64> = (0..count).map(|_| StandardNormal.sample(&mut data)).collect();
            Sample::new("x", values).unwrap().sign_flip(0).p <= 0.05
        });
        let share = rejected.count() as f64 / f64::from(experiments);
        let bound = DEVIATIONS * variance(attainable, f64::from(experiments)).sqrt();
        assert!((share - attainable).abs() <= bound, "{count} pairs: {share} and not {attainable}");
    }
}

/// Three equal arms with 8 seeds: the probability of any rejection among the three pairs stays below 5 %.
#[test]
fn holm_keeps_the_probability_of_any_false_finding() {
    let mut data = rng(10, Stream::Bootstrap);
    let experiments = 10_000;
    let any = (0..experiments).filter(|_| {
        let arms: Vec<Vec<f64>> = (0..3).map(|_| (0..8).map(|_| StandardNormal.sample(&mut data)).collect()).collect();
        let p = [(0, 1), (0, 2), (1, 2)].map(|(a, b)| Sample::differences(&arms[a], &arms[b]).unwrap().sign_flip(0).p);
        holm(&p).unwrap().iter().any(|p| *p <= 0.05)
    });
    let share = any.count() as f64 / f64::from(experiments);
    assert!((0.005..=0.05).contains(&share), "{share}");
}

#[test]
fn peaks_and_drops_of_a_constant_accuracy_are_the_expected_ones() {
    let mut data = rng(11, Stream::Bootstrap);
    let errors: Vec<f64> = (0..25).map(|at| 0.005 + 0.001 * f64::from(at % 10)).collect();
    let mut peaks = vec![];
    let mut drops = vec![];
    for _ in 0..20_000 {
        let curve: Vec<f64> = errors
            .iter()
            .map(|error| {
                let z: f64 = StandardNormal.sample(&mut data);
                error * z
            })
            .collect();
        let peak = curve.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        peaks.push(peak);
        drops.push(peak - curve[24]);
    }
    let expected = peak_by_chance(&errors).unwrap();
    for (what, values) in [("peak", peaks), ("drop", drops)] {
        let mean = Sample::new(what, values).unwrap().mean();
        let off = (mean.value - expected) / mean.standard_error.unwrap();
        assert!(off.abs() < DEVIATIONS, "{what}: {mean:?} and not {expected}");
    }
}
