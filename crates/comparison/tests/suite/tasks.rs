//! Several benchmarks of one run, and several tasks.

use evenkeel_comparison::{Comparison, ConclusionKind, Measure, Options, Quantity, Run};

use crate::support::{arm, around, compare, options, said};

/// Copies the runs to another task and moves their accuracies by `by`.
fn on(task: &str, runs: &[Run], by: f64) -> Vec<Run> {
    let moved = |run: &Run| {
        let mut run = Run { task: task.to_owned(), name: format!("{task}/{}", run.name), ..run.clone() };
        for scores in run.evaluations.iter_mut().flat_map(|evaluation| evaluation.benchmarks.values_mut()) {
            scores.mean.value += by;
        }
        run
    };
    runs.iter().map(moved).collect()
}

/// The runs with a second benchmark, 0.1 below the first.
fn with_aime(mut runs: Vec<Run>) -> Vec<Run> {
    for evaluation in runs.iter_mut().flat_map(|run| &mut run.evaluations) {
        let mut scores = evaluation.benchmarks["held-out"];
        scores.mean.value -= 0.1;
        scores.best = scores.best.map(|mut best| {
            best.value -= 0.1;
            best
        });
        evaluation.benchmarks.insert("aime".to_owned(), scores);
    }
    runs
}

#[test]
fn benchmarks_have_the_columns_of_table_1_and_an_average() {
    let comparison = compare(&with_aime(arm("token", &[0.3, 0.5])));
    let task = &comparison.tasks[0];
    let summary = &task.arms[0];
    let rows: Vec<_> = summary
        .benchmarks
        .iter()
        .map(|row| {
            let best = row.peak_best.unwrap().mean.value;
            let values = [row.peak_accuracy.mean.value, best, row.last_accuracy.value, row.last_best.unwrap().value];
            (row.name.as_str(), row.samples, values.map(|value| (value * 1e6).round() / 1e6))
        })
        .collect();
    // Peaks of 0.4 and 0.5: each seed has its own.
    assert_eq!(rows, [("aime", Some(8), [0.35, 0.45, 0.3, 0.4]), ("held-out", Some(8), [0.45, 0.55, 0.4, 0.5])]);
    let average = summary.measure(Measure::LastAccuracy).unwrap();
    assert!((average.mean.value - 0.35).abs() < 1e-12);
    // Two independent errors of 0.01: the average has 0.01 / sqrt(2), the peak of three evaluations 0.8463 of it.
    let chance = summary.measure(Measure::PeakAccuracy).unwrap().by_chance.unwrap();
    assert!((chance.expected - 0.01 * 0.8463 / 2.0_f64.sqrt()).abs() < 1e-6);
    let of_benchmark = |band: &&evenkeel_comparison::Band| matches!(band.quantity, Quantity::BenchmarkAccuracy { .. });
    assert_eq!(task.bands.iter().filter(of_benchmark).count(), 2);
}

#[test]
fn held_out_problems_count_in_the_average_only_where_they_are_alone() {
    let held_out = Options { held_out: ["held-out".to_owned()].into(), ..options() };
    let last = |runs: &[Run]| {
        let comparison = Comparison::of(runs, &held_out).unwrap();
        comparison.tasks[0].arms[0].measure(Measure::LastAccuracy).unwrap().mean.value
    };
    let runs = arm("token", &[0.5, 0.5]);
    assert!((last(&runs) - 0.5).abs() < 1e-12);
    assert!((last(&with_aime(runs)) - 0.4).abs() < 1e-12);
}

#[test]
fn bands_are_means_over_seeds_with_intervals() {
    let comparison = compare(&arm("token", &[0.3, 0.5]));
    let bands = &comparison.tasks[0].bands;
    let quantities: Vec<_> = bands.iter().map(|band| &band.quantity).collect();
    assert_eq!(quantities, [&Quantity::Reward, &Quantity::Accuracy, &Quantity::Best]);
    let points = &bands[1].points;
    let values: Vec<_> = points.iter().map(|point| (point.step, point.mean, point.seeds)).collect();
    assert_eq!(values, [(0, 0.2, 2), (10, 0.4, 2), (20, 0.4, 2)]);
    assert_eq!((points[0].interval, points[2].interval.is_some()), (None, true));
    assert_eq!(bands[0].points.len(), 30);
}

#[test]
fn tasks_are_compared_by_themselves_and_together() {
    let runs = [arm("balanced", &around(0.6, 8, 1)), arm("token", &around(0.5, 8, 2))].concat();
    let comparison = compare(&[on("a", &runs, 0.0), on("b", &runs, 0.05)].concat());
    assert_eq!(comparison.tasks.len(), 2);
    assert!(comparison.tasks.iter().all(|task| task.pairs.iter().any(|pair| pair.finding.is_shown())));
    let across = &comparison.across_tasks[0];
    assert_eq!(
        (across.measure, across.tasks.as_slice()),
        (Measure::LastAccuracy, &["a".to_owned(), "b".to_owned()][..])
    );
    let [balanced, token] = &across.arms[..] else { panic!("two arms") };
    assert!(balanced.interquartile_mean > token.interquartile_mean + 0.05 && balanced.interval.is_some());
    let pair = across.pairs[0];
    assert!(pair.probability > 0.95 && pair.interval.low > 0.5 && pair.interval.low < 1.0, "{pair:?}");
    let text = said(&comparison, ConclusionKind::Shown);
    assert!(
        text.contains("Over 2 tasks a run of balanced has a higher last mean@k than a run of token with probability"),
        "{text}"
    );
}

#[test]
fn conclusions_stand_under_the_name_of_their_task() {
    let runs = [arm("balanced", &around(0.6, 8, 1)), arm("token", &around(0.5, 8, 2))].concat();
    let comparison = compare(&[on("a", &runs, 0.0), on("b", &runs, 0.05)].concat());
    let groups = comparison.conclusions_by_task();
    let headings: Vec<_> = groups.iter().filter_map(|(heading, _)| *heading).collect();
    assert_eq!(headings, ["a", "b", "All tasks"]);
    assert_eq!(groups.iter().map(|(_, group)| group.len()).sum::<usize>(), comparison.conclusions.len());
    let text = comparison.to_text();
    let markdown = comparison.to_markdown();
    assert!(text.contains("\n\nb\n\n- The last mean@k of balanced is higher"), "{text}");
    assert!(markdown.contains("\n\n### b\n\n- **The last mean@k of balanced is higher"), "{markdown}");
    let alone = compare(&runs);
    assert_eq!(alone.conclusions_by_task(), [(None, &alone.conclusions[..])]);
}

#[test]
fn an_arm_that_a_task_lacks_is_left_out_of_what_is_over_tasks() {
    let balanced = arm("balanced", &[0.5, 0.6]);
    let token = arm("token", &[0.4, 0.5]);
    let comparison = compare(&[on("a", &balanced, 0.0), on("a", &token, 0.0), on("b", &token, 0.0)].concat());
    let labels: Vec<_> = comparison.across_tasks[0].arms.iter().map(|arm| arm.label.as_str()).collect();
    assert_eq!(labels, ["token"]);
}

#[test]
fn runs_without_evaluations_are_compared_by_their_rewards() {
    let mut runs = [arm("balanced", &around(0.6, 8, 1)), arm("token", &around(0.5, 8, 2))].concat();
    for run in &mut runs {
        run.evaluations.clear();
        let (level, kind) = if run.arm.label() == "token" { (0.3, 5) } else { (0.5, 7) };
        run.rewards
            .iter_mut()
            .for_each(|(step, reward)| *reward = level + 0.001 * ((*step * 3 + run.seed * kind) % 11) as f64);
    }
    let comparison = compare(&runs);
    assert_eq!(comparison.tasks[0].primary, Some(Measure::LastReward));
    assert!(
        said(&comparison, ConclusionKind::Shown)
            .starts_with("The last reward of balanced is higher than that of token")
    );
}
