//! Intervals of paired differences, and the errors of a family of tests.

use evenkeel_seeds::{Stream, Uniforms};
use evenkeel_statistics::{Evidence, Interval, Settings, Verdict, compare};

use crate::support::{Coverage, SYMMETRIC, Shape, trial_rng, trials};

/// Coverage of Student's, the studentised bootstrap's and the exact interval, and of a percentile bootstrap for comparison.
#[derive(Default)]
struct Coverages {
    student: Coverage,
    bootstrap: Coverage,
    exact: Coverage,
    percentile: Coverage,
}

fn percentile_bootstrap(differences: &[f64], seed: u64) -> Interval {
    let mut uniforms = Uniforms::new(seed, Stream::Tokens);
    let count = differences.len() as u64;
    let mean_of = |resample: u64| {
        let index = |at: u64, uniforms: &mut Uniforms| (uniforms.at(resample * count + at) * count as f64) as usize;
        (0..count).map(|at| differences[index(at, &mut uniforms)]).sum::<f64>() / count as f64
    };
    let mut means: Vec<f64> = (0..999).map(mean_of).collect();
    means.sort_by(f64::total_cmp);
    Interval { low: means[24], high: means[974] }
}

fn coverages(shape: Shape, pairs: usize, count: u32) -> Coverages {
    let mut found = Coverages::default();
    for trial in 0..count {
        let differences = shape.draws(pairs, &mut trial_rng(trial));
        let settings = Settings { resamples: 999, seed: u64::from(trial), ..Settings::default() };
        let comparison = &compare(&[&differences], &settings).unwrap()[0];
        found.student.count(comparison.intervals.student, 0.0);
        found.bootstrap.count(comparison.intervals.bootstrap, 0.0);
        found.exact.count(comparison.intervals.exact, 0.0);
        found.percentile.count(Some(percentile_bootstrap(&differences, u64::from(trial))), 0.0);
    }
    println!(
        "| {shape:?} | {pairs} | {} | {} | {} | {} |",
        found.student.shown(),
        found.bootstrap.shown(),
        found.exact.shown(),
        found.percentile.shown()
    );
    found
}

#[track_caller]
fn assert_within(found: f64, range: std::ops::RangeInclusive<f64>) {
    assert!(range.contains(&found), "{found} is not within {range:?}");
}

/// 2,000 trials have a standard error of 0.5 points.
#[test]
fn intervals_of_a_difference_cover_as_often_as_they_say_for_symmetric_differences() {
    for shape in SYMMETRIC {
        for pairs in [5, 8, 12] {
            let found = coverages(shape, pairs, trials(2_000, 20_000));
            assert_within(found.student.share(), 0.93..=0.98);
            if pairs >= 8 {
                assert_within(found.bootstrap.share(), 0.92..=0.975);
                // The rank is a whole number: 1 - 2 * 6 / 256, and 1 - 2 * 102 / 4096.
                assert_within(found.exact.share(), 0.93..=0.97);
            } else {
                assert_eq!(found.exact.missing(), 1.0, "no interval of 5 pairs is as sure as 95 %");
            }
        }
    }
}

/// The reason not to use it: 84 % for 5 pairs, 88 % for 8.
#[test]
fn a_percentile_bootstrap_covers_too_little_with_few_pairs() {
    for (pairs, expected) in [(5, 0.84), (8, 0.89)] {
        let found = coverages(Shape::Normal, pairs, trials(2_000, 20_000));
        assert_within(found.percentile.share(), expected - 0.025..=expected + 0.025);
        assert_within(found.student.share(), 0.93..=0.97);
    }
}

/// Differences of exchangeable rules are symmetric; skewed ones need a real difference, and no interval of so few pairs is exact for it.
#[test]
fn the_studentised_bootstrap_misses_least_for_skewed_differences() {
    for pairs in [8, 12] {
        let found = coverages(Shape::Skewed, pairs, trials(2_000, 20_000));
        assert!(found.bootstrap.share() > found.student.share() && found.bootstrap.share() > found.exact.share());
        assert_within(found.bootstrap.share(), 0.91..=0.975);
        assert_within(found.student.share(), 0.86..=0.95);
        assert_within(found.exact.share(), 0.85..=0.95);
    }
}

/// Four rules that do the same on the same seeds: six comparisons, all of which share their runs.
#[test]
fn a_family_without_differences_has_a_verdict_in_at_most_one_study_of_twenty() {
    let settings = Settings { resamples: 99, ..Settings::default() };
    for (shape, pairs) in [(Shape::Normal, 8), (Shape::Skewed, 8), (Shape::Heavy, 10)] {
        let count = trials(4_000, 40_000);
        let (mut any, mut single) = (0_u32, 0_u32);
        for trial in 0..count {
            let mut rng = trial_rng(trial);
            let rules: Vec<Vec<f64>> = (0..4).map(|_| shape.draws(pairs, &mut rng)).collect();
            let difference = |(a, b): (usize, usize)| rules[a].iter().zip(&rules[b]).map(|(a, b)| a - b).collect();
            let family: Vec<Vec<f64>> = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)].map(difference).into();
            let shown = |family: &[Vec<f64>]| {
                compare(family, &settings).unwrap().iter().any(|comparison| match comparison.evidence {
                    Evidence::Tested(test) => matches!(test.verdict, Verdict::Higher | Verdict::Lower),
                    Evidence::TooFewPairs { .. } => false,
                })
            };
            any += u32::from(shown(&family));
            single += u32::from(shown(&family[..1]));
        }
        let (any, single) = (f64::from(any) / f64::from(count), f64::from(single) / f64::from(count));
        println!("| {shape:?} | {pairs} | {:.2} | {:.2} |", 100.0 * single, 100.0 * any);
        // The standard error is 0.35 points.
        assert_within(any, 0.003..=0.065);
        assert_within(single, 0.02..=0.065);
    }
}

#[test]
fn a_difference_of_two_standard_deviations_is_shown_with_eight_pairs() {
    let settings = Settings { resamples: 99, ..Settings::default() };
    let count = trials(1_000, 10_000);
    for (effect, range) in [(1.0, 0.5..=0.8), (2.0, 0.98..=1.0)] {
        let mut shown = 0_u32;
        for trial in 0..count {
            let mut rng = trial_rng(trial);
            let differences: Vec<f64> = Shape::Normal.draws(8, &mut rng).iter().map(|noise| noise + effect).collect();
            let Evidence::Tested(test) = compare(&[differences], &settings).unwrap()[0].evidence else { panic!() };
            assert_ne!(test.verdict, Verdict::Lower);
            shown += u32::from(test.verdict == Verdict::Higher);
        }
        let power = f64::from(shown) / f64::from(count);
        println!("a difference of {effect} deviations is shown in {:.1} %", 100.0 * power);
        assert_within(power, range);
    }
}
