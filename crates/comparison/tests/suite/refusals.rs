//! What cannot be compared is refused by naming the difference.

use std::collections::BTreeMap;

use evenkeel_comparison::{Arm, Comparison, Options, Run, RunEnd};

use crate::support::{arm, compare, options};

fn refusal(change: impl FnOnce(&mut Vec<Run>)) -> String {
    let mut runs = [arm("balanced", &[0.5, 0.6]), arm("token", &[0.4, 0.5])].concat();
    change(&mut runs);
    Comparison::of(&runs, &options()).unwrap_err().to_string()
}

#[test]
fn runs_of_other_data_are_named() {
    let error = refusal(|runs| {
        runs[3].identity.insert("data".to_owned(), "sha256:2".to_owned());
    });
    assert_eq!(
        error,
        "runs[runs/token-1].identity.data is sha256:2, allowed: sha256:1, as in runs/balanced-0: runs of one task are \
        compared on the same terms"
    );
    let error = refusal(|runs| {
        runs[2].identity.remove("model");
    });
    assert!(
        error.starts_with("runs[runs/token-0].identity.model is absent, required: tiny, as in runs/balanced-0"),
        "{error}"
    );
}

#[test]
fn a_failed_run_of_other_data_is_refused_as_well() {
    let error = refusal(|runs| {
        runs[3].state = RunEnd::Failed { reason: "x".to_owned() };
        runs[3].identity.insert("data".to_owned(), "sha256:2".to_owned());
    });
    assert!(error.contains("identity.data is sha256:2"), "{error}");
}

#[test]
fn other_evaluations_are_named() {
    let error = refusal(|runs| runs[1].evaluations[2].step = 25);
    assert_eq!(
        error,
        "runs[runs/balanced-1].evaluations is at steps 0, 10, 25, allowed: at steps 0, 10, 20, as in runs/balanced-0"
    );
    let error = refusal(|runs| runs[1].evaluations[2].benchmarks.get_mut("held-out").unwrap().samples = 4);
    assert_eq!(
        error,
        "runs[runs/balanced-1].evaluations[2] is held-out (4 samples, with best@k), allowed: held-out (8 samples, with \
         best@k), as in runs/balanced-0"
    );
    let error = refusal(|runs| runs[2].rewards.clear());
    assert!(error.starts_with("runs[runs/token-0].rewards is empty, allowed: a curve"), "{error}");
}

#[test]
fn a_seed_counts_once() {
    let error = refusal(|runs| {
        let copy = Run { name: "runs/copy".to_owned(), ..runs[0].clone() };
        runs.push(copy);
    });
    assert_eq!(
        error,
        "runs[runs/copy].seed is 0, allowed: another seed than runs/balanced-0, which has the same task and arm"
    );
}

#[test]
fn arms_vary_the_same_settings() {
    let error =
        refusal(|runs| runs[3].arm = Arm(BTreeMap::from([("learner.optimizer.lr".to_owned(), "1e-6".to_owned())])));
    assert!(error.contains("is learner.optimizer.lr, allowed: the settings that"), "{error}");
}

#[test]
fn impossible_values_are_named() {
    let value = |change: fn(&mut Run)| refusal(|runs| change(&mut runs[0]));
    assert_eq!(
        value(|run| run.evaluations[1].benchmarks.get_mut("held-out").unwrap().mean.value = 1.5),
        "runs[runs/balanced-0].evaluations[1].held-out.mean.value is 1.5, allowed: 0 to 1"
    );
    assert_eq!(
        value(|run| run.evaluations[1].benchmarks.get_mut("held-out").unwrap().mean.sampling_error = Some(f64::NAN)),
        "runs[runs/balanced-0].evaluations[1].held-out.mean.sampling_error is NaN, allowed: a finite number, at least 0"
    );
    assert_eq!(
        value(|run| run.rewards[1].0 = 1),
        "runs[runs/balanced-0].rewards[1].step is 1, allowed: above the step before, 1"
    );
    let empty = value(|run| {
        run.evaluations.clear();
        run.rewards.clear();
    });
    assert!(empty.starts_with("runs[runs/balanced-0].evaluations is empty"), "{empty}");
}

#[test]
fn nothing_and_impossible_options_are_refused() {
    assert_eq!(Comparison::of(&[], &options()).unwrap_err().to_string(), "runs is empty, allowed: one run or more");
    let runs = arm("token", &[0.5]);
    let error = |options: Options| Comparison::of(&runs, &options).unwrap_err().to_string();
    assert_eq!(error(Options { resamples: 10, ..options() }), "options.resamples is 10, allowed: 199 to 10000000");
    assert_eq!(
        error(Options { reward: Some(f64::NAN), ..options() }),
        "options.reward is NaN, allowed: a finite number"
    );
}

#[test]
fn one_run_is_a_comparison_that_has_only_begun() {
    let comparison = compare(&arm("token", &[0.5]));
    assert_eq!((comparison.tasks[0].arms.len(), comparison.tasks[0].pairs.len()), (1, 0));
}
