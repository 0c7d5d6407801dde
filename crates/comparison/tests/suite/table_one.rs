//! The paper's table and figure: what is in them, and what is left out by name.

use std::collections::BTreeMap;

use evenkeel_comparison::{Comparison, Run, RunEnd, Setting, Training};

use crate::support::{arm, compare, options, run};

/// The runs on a model and data of the paper.
fn of(model: &str, data: &str, runs: Vec<Run>) -> Vec<Run> {
    let setting = Setting { model: model.to_owned(), data: data.to_owned() };
    let task = format!("{model} on {data}");
    let on_task = |run: Run| Run {
        task: task.clone(),
        name: format!("{task}/{}", run.name),
        setting: Some(setting.clone()),
        identity: BTreeMap::from([("data".to_owned(), data.to_owned())]),
        ..run
    };
    runs.into_iter().map(on_task).collect()
}

/// A second benchmark, whose accuracies are those of the first in another order of steps.
fn with_second(mut runs: Vec<Run>) -> Vec<Run> {
    for run in &mut runs {
        let values: Vec<_> = run.evaluations.iter().map(|evaluation| evaluation.benchmarks["held-out"]).collect();
        for (at, evaluation) in run.evaluations.iter_mut().enumerate() {
            evaluation.benchmarks.insert("aime".to_owned(), values[(at + 1) % values.len()]);
        }
    }
    runs
}

fn one(rule: &str, accuracies: &[f64]) -> Vec<Run> {
    vec![run(rule, 0, accuracies)]
}

fn rounded(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}

#[test]
fn the_table_has_the_papers_numbers_beside_and_its_order_of_rules() {
    let runs = [
        of(
            "Qwen3-1.7B",
            "dapo-math-17k",
            [one("balanced-count", &[0.2, 0.6, 0.4]), one("sequence", &[0.2, 0.5, 0.3])].concat(),
        ),
        of(
            "Qwen3-1.7B",
            "polaris-53k",
            [one("balanced-count", &[0.3, 0.4, 0.5]), one("sequence", &[0.1, 0.4, 0.2])].concat(),
        ),
    ]
    .concat();
    let comparison = compare(&runs);
    let table = comparison.table_one.clone().unwrap();
    let rows: Vec<_> = table
        .rows
        .iter()
        .map(|row| {
            let own = [row.columns.peak_accuracy.unwrap().value, row.columns.last_best.unwrap().value].map(rounded);
            (row.task.as_str(), row.arm.as_str(), own, row.published.unwrap().peak_accuracy)
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("Qwen3-1.7B on dapo-math-17k", "sequence", [0.5, 0.4], 0.4947),
            ("Qwen3-1.7B on dapo-math-17k", "balanced-count", [0.6, 0.5], 0.4928),
            ("Qwen3-1.7B on polaris-53k", "sequence", [0.4, 0.3], 0.4812),
            ("Qwen3-1.7B on polaris-53k", "balanced-count", [0.5, 0.6], 0.4879),
        ]
    );
    // Plain means where there is one seed: (0.6 + 0.5) / 2 and (0.4928 + 0.4879) / 2.
    let balanced = &table.over_tasks[1];
    let mean = balanced.columns.peak_accuracy.unwrap();
    assert_eq!((rounded(mean.value), mean.interval, mean.seeds), (0.55, None, 1));
    assert_eq!(rounded(balanced.published.unwrap().peak_accuracy), 0.49035);
    for text in [comparison.to_text(), comparison.to_markdown()] {
        assert!(text.contains("0.4928") && text.contains("about half a point"), "{text}");
    }
    assert!(table.left_out.is_empty());
}

#[test]
fn more_seeds_give_the_mean_over_tasks_an_interval() {
    let tasks = ["dapo-math-17k", "polaris-53k"].map(|data| of("m", data, arm("token", &[0.5, 0.7])));
    let comparison = compare(&tasks.concat());
    let table = comparison.table_one.unwrap();
    let mean = table.over_tasks[0].columns.last_accuracy.unwrap();
    // Seeds of 0.5 and 0.7 on both tasks: 0.6 with Student's 12.7062 times 0.1.
    assert!((mean.value - 0.6).abs() < 1e-12 && mean.seeds == 2);
    assert!((mean.interval.unwrap().high - 0.6 - 1.27062).abs() < 1e-4, "{mean:?}");
    let benchmark = &table.benchmarks[0];
    assert_eq!((benchmark.benchmark.as_str(), benchmark.tasks, benchmark.last.seeds), ("held-out", 2, 2));
    assert_eq!(table.rows[0].published, None);
}

#[test]
fn a_definition_that_the_paper_leaves_open_is_computed_both_ways() {
    // Curves of 0.2, 0.6, 0.4 and 0.6, 0.4, 0.2: the average is 0.4, 0.5, 0.3.
    let runs = of("Qwen3-1.7B", "dapo-math-17k", with_second(one("token", &[0.2, 0.6, 0.4])));
    let table = compare(&runs).table_one.unwrap();
    let row = &table.rows[0];
    let value = |mean: Option<evenkeel_comparison::Mean>| rounded(mean.unwrap().value);
    assert_eq!(value(row.columns.peak_accuracy), 0.5, "the peak of the average");
    assert_eq!(value(row.other_readings.mean_of_peaks), 0.6, "the average of the peaks");
    assert_eq!((value(row.columns.peak_best), value(row.other_readings.mean_of_best_peaks)), (0.6, 0.7));
    // The draws are 0.05 below any-of-k in these runs.
    assert_eq!((value(row.other_readings.peak_drawn), value(row.other_readings.last_drawn)), (0.55, 0.35));
    assert_eq!(table.benchmarks.len(), 2);
    assert!(table.over_tasks.is_empty(), "one task is no mean over tasks");
}

#[test]
fn what_has_not_finished_is_named_and_in_no_mean() {
    let mut unfinished = run("balanced-count", 0, &[0.2, 0.4]);
    unfinished.state = RunEnd::Failed { reason: "ended after 20 of 30 steps".to_owned() };
    let runs = [
        of("m", "a", [one("token", &[0.2, 0.6, 0.4]), one("balanced-count", &[0.2, 0.5, 0.3])].concat()),
        of("m", "b", [one("token", &[0.3, 0.4, 0.5]), vec![unfinished]].concat()),
    ]
    .concat();
    let table = compare(&runs).table_one.unwrap();
    assert_eq!(table.rows.len(), 3);
    assert_eq!(
        table.left_out,
        ["balanced-count on m on b: no run has finished", "m on b is in no mean over tasks: it lacks balanced-count"]
    );
    assert_eq!(table.averaged, ["m on a"]);
    assert!(table.benchmarks.iter().all(|found| found.tasks == 1), "the figure is of the task with both");
}

#[test]
fn a_single_task_that_is_none_of_the_papers_has_no_table() {
    assert_eq!(compare(&arm("token", &[0.5])).table_one, None);
    let alone = compare(&of("Qwen3-1.7B", "dapo-math-17k", arm("token", &[0.5])));
    assert!(alone.table_one.is_some());
}

#[test]
fn losses_and_lengths_by_step_are_bands_and_the_loss_has_a_table() {
    let mut runs = arm("token", &[0.5, 0.6]);
    for run in &mut runs {
        let loss = |step: u64| (step, 0.01 * step as f64 + 0.02 * run.seed as f64);
        run.training = BTreeMap::from([
            (Training::Loss, (1..=4).map(loss).collect()),
            (Training::LengthGap, vec![(1, 5.0), (3, 7.0)]),
        ]);
    }
    let comparison = compare(&runs);
    let task = &comparison.tasks[0];
    let band = |of: Training| {
        let band = task.bands.iter().find(|band| band.quantity == evenkeel_comparison::Quantity::Training(of));
        band.map(|band| band.points.iter().map(|point| (point.step, rounded(point.mean))).collect::<Vec<_>>())
    };
    assert_eq!(band(Training::Loss).unwrap(), [(1, 0.02), (2, 0.03), (3, 0.04), (4, 0.05)]);
    assert_eq!(band(Training::LengthGap).unwrap(), [(1, 5.0), (3, 7.0)], "a step without a gap has none");
    assert_eq!(band(Training::LengthVariation), None);
    // Steps 3 and 4: 0.035 and 0.055, mean 0.045; half of 0.01 is their deviation.
    let loss = task.arms[0].loss.unwrap();
    assert_eq!((rounded(loss.mean.value), rounded(loss.deviation.value)), (0.045, 0.005));
    assert!(comparison.to_text().contains("Policy-gradient loss over the second half of the steps"));
    runs[0].training.insert(Training::LengthGap, vec![(1, f64::NAN)]);
    let error = Comparison::of(&runs, &options()).unwrap_err().to_string();
    assert!(error.contains("aggregation/length_gap of step 1 is NaN, allowed: a finite number"), "{error}");
}
