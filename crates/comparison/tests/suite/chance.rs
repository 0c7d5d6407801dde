//! Peaks and drops compared with chance.

use evenkeel_comparison::{ConclusionKind, Measure};

use crate::support::{arm, compare, run, said};

/// 25 evaluations of a constant accuracy with a sampling error of 0.01.
fn constant(arm: &str, seed: u64, lost: f64) -> evenkeel_comparison::Run {
    let noise = |at: u64| 0.01 * ((((at + 1) * (seed + 3) * 7919) % 1000) as f64 / 1000.0 * 3.4 - 1.7);
    let values: Vec<f64> = (0..25).map(|at| 0.5 + noise(at) - if at == 24 { lost } else { 0.0 }).collect();
    run(arm, seed, &values)
}

#[test]
fn the_peak_of_25_evaluations_stands_0_02_above_the_truth_by_chance() {
    let runs: Vec<_> = (0..8).map(|seed| constant("token", seed, 0.0)).collect();
    let comparison = compare(&runs);
    for measure in [Measure::PeakAccuracy, Measure::AccuracyDrop, Measure::PeakBest, Measure::BestDrop] {
        let summary = comparison.tasks[0].arms[0].measure(measure).unwrap();
        let chance = summary.by_chance.unwrap();
        assert!((chance.expected - 0.01965).abs() < 1e-5 && !chance.is_bound, "{measure:?}: {chance:?}");
        assert!((chance.beyond.value - (summary.mean.value - chance.expected)).abs() < 1e-12);
    }
    assert!(comparison.tasks[0].arms[0].measure(Measure::LastAccuracy).unwrap().by_chance.is_none());
}

#[test]
fn a_drop_is_a_loss_only_beyond_chance() {
    let comparison = |lost| compare(&(0..8).map(|seed| constant("token", seed, lost)).collect::<Vec<_>>());
    let text = said(&comparison(0.0), ConclusionKind::NotShown);
    assert!(
        text.contains("0.020 is expected by chance, being the highest of 25 noisy evaluations; a loss beyond"),
        "{text}"
    );
    let text = said(&comparison(0.1), ConclusionKind::Shown);
    assert!(text.contains("is a loss"), "{text}");
}

#[test]
fn drops_that_chance_explains_share_a_sentence() {
    let arm = |name: &'static str| (0..8).map(move |seed| constant(name, seed, 0.0));
    let text = said(&compare(&arm("balanced").chain(arm("token")).collect::<Vec<_>>()), ConclusionKind::NotShown);
    assert_eq!(text.matches("No loss beyond that is shown of balanced (falls by ").count(), 1, "{text}");
    assert!(text.contains("; token (falls by "), "{text}");
}

#[test]
fn an_unknown_sampling_error_gives_an_upper_bound_or_nothing() {
    let mut runs = arm("token", &[0.5, 0.6]);
    for scores in
        runs.iter_mut().flat_map(|run| &mut run.evaluations).flat_map(|evaluation| evaluation.benchmarks.values_mut())
    {
        scores.mean.sampling_error = None;
    }
    let chance = |runs: &[evenkeel_comparison::Run]| {
        compare(runs).tasks[0].arms[0].measure(Measure::PeakAccuracy).unwrap().by_chance
    };
    let bound = chance(&runs).unwrap();
    // Three evaluations with a standard error of 0.03.
    assert!(bound.is_bound && (bound.expected - 0.03 * 0.8463).abs() < 1e-5, "{bound:?}");
    runs[0].evaluations[1].benchmarks.get_mut("held-out").unwrap().mean.standard_error = None;
    assert_eq!(chance(&runs), None);
    let text = said(&compare(&runs), ConclusionKind::Caution);
    assert!(text.contains("so is the share of chance in a peak or a drop"), "{text}");
}
