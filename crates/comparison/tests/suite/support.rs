//! Runs made of a few numbers.

use std::collections::BTreeMap;

use evenkeel_comparison::{
    Arm, Comparison, ConclusionKind, Evaluation, Measure, Options, PairedDifference, Run, RunEnd, Score, Scores,
};

/// A run whose accuracy is given at steps 0, 10, 20 and so on, with a sampling error of 0.01 and best@k 0.1 above it.
pub(crate) fn run(arm: &str, seed: u64, accuracies: &[f64]) -> Run {
    let score = |value: f64| Score { value, sampling_error: Some(0.01), standard_error: Some(0.03) };
    let scores = |value: f64| {
        let best = (value + 0.1).min(1.0);
        Scores { samples: 8, mean: score(value), best: Some(score(best)), drawn: Some(best - 0.05) }
    };
    let evaluation = |(step, value): (u64, &f64)| Evaluation {
        step,
        verified: None,
        benchmarks: BTreeMap::from([("held-out".to_owned(), scores(*value))]),
    };
    Run {
        name: format!("runs/{arm}-{seed}"),
        task: "sums".to_owned(),
        setting: None,
        arm: of_rule(arm),
        seed,
        identity: BTreeMap::from([("data".to_owned(), "sha256:1".to_owned()), ("model".to_owned(), "tiny".to_owned())]),
        evaluations: (0..).step_by(10).zip(accuracies).map(evaluation).collect(),
        rewards: (1..=30).map(|step| (step, 0.2 + 0.02 * step as f64)).collect(),
        training: BTreeMap::new(),
        rule: Some(arm.to_owned()),
        lengths: Vec::new(),
        state: RunEnd::Finished,
    }
}

pub(crate) fn of_rule(rule: &str) -> Arm {
    Arm(BTreeMap::from([("learner.objective.aggregation".to_owned(), rule.to_owned())]))
}

/// Runs of an arm: one for each last accuracy, seeds counting from 0.
pub(crate) fn arm(name: &str, last: &[f64]) -> Vec<Run> {
    (0..).zip(last).map(|(seed, last)| run(name, seed, &[0.2, 0.4, *last])).collect()
}

/// Accuracies around a level, a different one for each seed and `kind`.
pub(crate) fn around(level: f64, seeds: usize, kind: u64) -> Vec<f64> {
    let noise = |seed: u64| (seed * 7919 + kind * 104_729) % 23;
    (0..seeds as u64).map(|seed| level + 0.002 * noise(seed) as f64).collect()
}

pub(crate) fn failed(mut run: Run, reason: &str) -> Run {
    run.evaluations.clear();
    run.state = RunEnd::Failed { reason: reason.to_owned() };
    run
}

pub(crate) fn compare(runs: &[Run]) -> Comparison {
    Comparison::of(runs, &options()).unwrap()
}

/// Few resamples: tests are about what is done with them.
pub(crate) fn options() -> Options {
    Options { resamples: 499, ..Options::default() }
}

/// The pair of the first two arms of the first task.
pub(crate) fn pair(comparison: &Comparison, measure: Measure) -> &PairedDifference {
    let pairs = &comparison.tasks[0].pairs;
    pairs.iter().find(|pair| (pair.first, pair.second, pair.measure) == (0, 1, measure)).unwrap()
}

/// The conclusions of a kind, one in each line.
pub(crate) fn said(comparison: &Comparison, kind: ConclusionKind) -> String {
    let texts = comparison.conclusions.iter().filter(|conclusion| conclusion.kind == kind);
    texts.map(|conclusion| conclusion.text.as_str()).collect::<Vec<_>>().join("\n")
}
