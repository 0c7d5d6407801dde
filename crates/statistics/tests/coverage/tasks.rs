//! Intervals over several tasks.

use evenkeel_seeds::ChaCha12Rng;
use evenkeel_statistics::{
    Runs, Settings, interquartile_mean, interquartile_mean_difference, probability_of_improvement,
};

use crate::support::{Coverage, Shape, trial_rng, trials};

fn settings(trial: u32) -> Settings {
    Settings { resamples: 999, seed: u64::from(trial), ..Settings::default() }
}

/// Scores of runs on tasks whose centres lie symmetrically around 0, so that 0 is the interquartile mean. `shared` is the deviation of a
/// part that a run has in common on all tasks.
fn scores(shape: Shape, tasks: usize, runs: usize, shared: f64, rng: &mut ChaCha12Rng) -> Vec<Vec<f64>> {
    let common = Shape::Normal.draws(runs, rng);
    let centre = |task: usize| task as f64 - (tasks - 1) as f64 / 2.0;
    let of_task = |task: usize, rng: &mut ChaCha12Rng| -> Vec<f64> {
        common.iter().map(|common| centre(task) + shared * common + shape.draw(rng)).collect()
    };
    (0..tasks).map(|task| of_task(task, rng)).collect()
}

#[test]
fn interquartile_means_cover_with_few_runs() {
    for shape in [Shape::Normal, Shape::Heavy] {
        for (tasks, runs) in [(1, 8), (4, 5), (4, 8)] {
            let (mut expanded, mut percentile) = (Coverage::default(), Coverage::default());
            for trial in 0..trials(800, 10_000) {
                let scores = scores(shape, tasks, runs, 0.0, &mut trial_rng(trial));
                let found = interquartile_mean(&scores, Runs::OfOneTask, &settings(trial)).unwrap();
                expanded.count(found.interval, 0.0);
                percentile.count(found.percentile, 0.0);
            }
            println!("| {shape:?} | {tasks} | {runs} | {} | {} |", expanded.shown(), percentile.shown());
            // The standard error is 0.8 points.
            assert!((0.925..=0.99).contains(&expanded.share()), "{}", expanded.shown());
            assert!(percentile.share() < expanded.share());
        }
    }
}

#[test]
fn runs_of_all_tasks_cover_only_where_they_are_resampled_whole() {
    let (mut whole, mut within) = (Coverage::default(), Coverage::default());
    for trial in 0..trials(800, 10_000) {
        let scores = scores(Shape::Normal, 4, 8, 1.0, &mut trial_rng(trial));
        let found = |runs| interquartile_mean(&scores, runs, &settings(trial)).unwrap().interval;
        whole.count(found(Runs::OfAllTasks), 0.0);
        within.count(found(Runs::OfOneTask), 0.0);
    }
    println!("| runs of all tasks | whole {} | within tasks {} |", whole.shown(), within.shown());
    assert!((0.92..=0.985).contains(&whole.share()), "{}", whole.shown());
    assert!(within.share() < 0.88, "{}", within.shown());
}

#[test]
fn differences_of_interquartile_means_cover_and_gain_from_pairing() {
    let (mut paired, mut one) = (Coverage::default(), Coverage::default());
    for trial in 0..trials(800, 10_000) {
        let mut rng = trial_rng(trial);
        let first = scores(Shape::Normal, 4, 8, 0.0, &mut rng);
        // The second rule's runs share most of their luck with the first's.
        let near = |score: &f64, rng: &mut ChaCha12Rng| score - 0.3 + 0.3 * Shape::Normal.draw(rng);
        let second: Vec<Vec<f64>> =
            first.iter().map(|runs| runs.iter().map(|score| near(score, &mut rng)).collect()).collect();
        let found = interquartile_mean_difference(&first, &second, Runs::OfOneTask, &settings(trial)).unwrap();
        paired.count(found.interval, 0.3);
        one.count(interquartile_mean(&first, Runs::OfOneTask, &settings(trial)).unwrap().interval, 0.0);
    }
    println!("| difference, paired | {} | of one rule | {} |", paired.shown(), one.shown());
    assert!((0.925..=0.99).contains(&paired.share()), "{}", paired.shown());
}

/// One way in which the runs of two rules are distributed.
struct Rules {
    name: &'static str,
    /// Correlation of runs with the same seed.
    correlation: f64,
    /// Standard deviation of the second rule's runs; the first's is 1.
    deviation: f64,
    /// Least and largest coverage.
    range: std::ops::RangeInclusive<f64>,
}

#[test]
fn probabilities_of_improvement_cover_for_rules_that_vary_alike() {
    let rules = [
        Rules { name: "unrelated", correlation: 0.0, deviation: 1.0, range: 0.92..=0.99 },
        Rules { name: "seeds shared", correlation: 0.5, deviation: 1.0, range: 0.95..=1.0 },
        Rules { name: "one varies 5 times as much", correlation: 0.0, deviation: 5.0, range: 0.84..=0.97 },
    ];
    for Rules { name, correlation, deviation, range } in rules {
        for (tasks, runs) in [(1, 5), (1, 8), (4, 8)] {
            for probability in [0.5, 0.75, 0.95] {
                let coverage = improvement_coverage((correlation, deviation), (tasks, runs), probability);
                println!("| {name} | {tasks} | {runs} | {probability} | {} |", coverage.shown());
                assert!(range.contains(&coverage.share()), "{}", coverage.shown());
            }
        }
    }
}

fn improvement_coverage(
    (correlation, deviation): (f64, f64),
    (tasks, runs): (usize, usize),
    probability: f64,
) -> Coverage {
    // A difference of unrelated runs has the variance 1 + deviation^2; these are normal quantiles.
    let quantile = match probability {
        0.5 => 0.0,
        0.75 => 0.674_489_750_196_081_7,
        _ => 1.644_853_626_951_472_7,
    };
    let shift = quantile * (1.0 + deviation * deviation).sqrt();
    let mut coverage = Coverage::default();
    for trial in 0..trials(2_000, 20_000) {
        let mut rng = trial_rng(trial);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for _ in 0..tasks {
            let shared = Shape::Normal.draws(runs, &mut rng);
            let mut side = |shift: f64, deviation: f64| -> Vec<f64> {
                let own = |rng: &mut ChaCha12Rng| (1.0 - correlation).sqrt() * Shape::Normal.draw(rng);
                shared.iter().map(|common| shift + deviation * (correlation.sqrt() * common + own(&mut rng))).collect()
            };
            first.push(side(shift, 1.0));
            second.push(side(0.0, deviation));
        }
        let found = probability_of_improvement(&first, &second, Runs::OfOneTask, &Settings::default()).unwrap();
        coverage.count(Some(found.interval), probability);
    }
    coverage
}
