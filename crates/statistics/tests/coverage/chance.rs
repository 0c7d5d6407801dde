//! Peaks and drops of a run whose accuracy never changes.

use evenkeel_statistics::{Accuracies, Attempt, ByChance, Curve, Noise, Point, drop_by_chance, peak_by_chance};
use rand::Rng;

use crate::support::{Shape, trial_rng, trials};

/// Mean of a height over trials, and how often it exceeded a limit.
fn simulate(count: u32, limit: f64, height: impl Fn(u32) -> f64) -> (f64, f64) {
    let heights: Vec<f64> = (0..count).map(height).collect();
    let exceeded = heights.iter().filter(|height| **height > limit).count();
    (heights.iter().sum::<f64>() / f64::from(count), exceeded as f64 / f64::from(count))
}

fn curve(values: &[f64]) -> Curve {
    Curve::new((1..).zip(values).map(|(step, value)| Point { step, value: *value }).collect()).unwrap()
}

#[track_caller]
fn assert_as_expected(expected: ByChance, (mean, exceeded): (f64, f64), tolerance: f64, what: &str) {
    println!("| {what} | {:.5} | {mean:.5} | {:.2} |", expected.expected, 100.0 * exceeded);
    assert!((mean - expected.expected).abs() < tolerance, "{what}: {mean} {expected:?}");
    // The standard error is at most 0.25 points.
    assert!((exceeded - 0.05).abs() < 0.01, "{what}: {exceeded} {expected:?}");
}

#[test]
fn peaks_and_drops_of_a_constant_accuracy_are_as_high_as_expected() {
    let count = trials(8_000, 200_000);
    for evaluations in [2, 5, 25] {
        let noise = Noise::independent(0.01).unwrap();
        let run = |trial| {
            let errors = Shape::Normal.draws(evaluations, &mut trial_rng(trial));
            curve(&errors.iter().map(|error| 0.5 + 0.01 * error).collect::<Vec<_>>())
        };
        let peak = peak_by_chance(evaluations, noise).unwrap();
        let found = simulate(count, peak.exceeded_by_5_percent, |trial| run(trial).peak().value - 0.5);
        // Four standard errors of a mean over 8,000 runs.
        assert_as_expected(peak, found, 4e-4, &format!("peak of {evaluations}"));
        let drop = drop_by_chance(evaluations, noise).unwrap();
        let found = simulate(count, drop.exceeded_by_5_percent, |trial| run(trial).drop_from_peak());
        assert_as_expected(drop, found, 5e-4, &format!("drop of {evaluations}"));
    }
}

#[test]
fn a_part_that_all_evaluations_share_lowers_the_drop_as_expected() {
    let drop = drop_by_chance(10, Noise::correlated(0.02, 0.6).unwrap()).unwrap();
    let run = |trial| {
        let mut rng = trial_rng(trial);
        let shared = Shape::Normal.draw(&mut rng);
        let errors = Shape::Normal.draws(10, &mut rng);
        let value = |own: &f64| 0.02 * (0.6_f64.sqrt() * shared + 0.4_f64.sqrt() * own);
        curve(&errors.iter().map(value).collect::<Vec<_>>()).drop_from_peak()
    };
    let found = simulate(trials(8_000, 200_000), drop.exceeded_by_5_percent, run);
    assert_as_expected(drop, found, 6e-4, "drop of 10, correlated");
}

/// Weights that hardly change between evaluations make neighbours alike: an autoregressive error.
#[test]
fn independent_noise_bounds_the_peak_under_other_positive_correlations() {
    let peak = peak_by_chance(25, Noise::independent(1.0).unwrap()).unwrap();
    let run = |trial| {
        let mut rng = trial_rng(trial);
        let mut error = Shape::Normal.draw(&mut rng);
        let mut highest = error;
        for _ in 1..25 {
            error = 0.8 * error + 0.6 * Shape::Normal.draw(&mut rng);
            highest = highest.max(error);
        }
        highest
    };
    let (mean, _) = simulate(trials(8_000, 200_000), f64::INFINITY, run);
    println!("| peak of 25, autoregressive 0.8 | at most {:.3} | {mean:.3} |", peak.expected);
    assert!(mean < peak.expected - 0.2 && mean > 0.5, "{mean}");
}

/// 60 problems of different difficulty, 4 samples each, evaluated 25 times with the same weights.
#[test]
fn the_sampling_error_of_one_evaluation_gives_the_peak_of_all() {
    let evaluation = |rng: &mut evenkeel_seeds::ChaCha12Rng| {
        let mut sample =
            |probability: f64| Attempt { score: f64::from(u8::from(rng.random::<f64>() < probability)), answer: None };
        let problems: Vec<Vec<Attempt>> =
            (0..60).map(|problem| (0..4).map(|_| sample(f64::from(problem) / 59.0)).collect()).collect();
        Accuracies::of(&problems).unwrap()
    };
    let (mut drops, mut sampling, mut total) = (Vec::new(), Vec::new(), Vec::new());
    for trial in 0..trials(400, 8_000) {
        let mut rng = trial_rng(trial);
        let evaluations: Vec<Accuracies> = (0..25).map(|_| evaluation(&mut rng)).collect();
        let run = curve(&evaluations.iter().map(|accuracies| accuracies.mean.value).collect::<Vec<_>>());
        drops.push(run.drop_from_peak());
        sampling.push(evaluations[0].sampling_error.unwrap());
        total.push(evaluations[0].mean.standard_error.unwrap());
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let expected = |errors: &[f64]| drop_by_chance(25, Noise::independent(mean(errors)).unwrap()).unwrap().expected;
    let found = mean(&drops);
    println!(
        "| drop over the same problems | {:.4} | {found:.4} | by the total error {:.4} |",
        expected(&sampling),
        expected(&total)
    );
    assert!((found / expected(&sampling) - 1.0).abs() < 0.1, "{found} {}", expected(&sampling));
    assert!(expected(&total) > 1.3 * found, "the total error has the choice of problems in it");
}
