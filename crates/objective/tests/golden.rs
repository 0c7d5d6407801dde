//! Advantages, weights, losses and gradients for every aggregation, policy and correction, as automatic differentiation
//! in float64 computed them from the formulas: `tests/golden/objective.json`, a larger file of the same form outside the
//! repository, and files of later rules.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "shared with the other tests of this crate")]
#[path = "suite/support.rs"]
mod support;

use std::path::Path;
use std::process::ExitCode;

use evenkeel_objective::{BatchLoss, RewardComponent, Settings, batch_loss_of_components};
use evenkeel_testkit::{GoldenCheck, golden, run};
use serde_json::Value;
use support::{Owned, Step, close, views};

fn main() -> ExitCode {
    let checks: [GoldenCheck; 5] = [
        ("advantages", advantages),
        ("weights", weights),
        ("losses", losses),
        ("gradients", gradients),
        ("losses_and_gradients_in_f32_differ_by_no_more_than_their_rounding", single_precision),
    ];
    let all = checks.into_iter().flat_map(|(name, check)| golden(name, "objective.json", check));
    // There is no larger set of these.
    let checks_of = |part: &'static str| {
        let file = format!("objective_{part}.json");
        let of_file = move |(name, check)| golden(&format!("{part}::{name}"), &file, check).into_iter().take(1);
        checks.into_iter().flat_map(of_file)
    };
    run(all.chain(checks_of("since")).chain(checks_of("sides")).collect())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    list(value).iter().map(|x| x.as_f64().unwrap()).collect()
}

fn step(case: &Value) -> Step {
    let response = |r: &Value| Owned {
        reward: r["reward"].as_f64().unwrap(),
        valid: r["valid"].as_bool().unwrap(),
        mask: list(&r["mask"]).iter().map(|m| m.as_i64().unwrap() != 0).collect(),
        logp: numbers(&r["logp"]),
        old_logp: numbers(&r["old_logp"]),
        rollout_logp: numbers(&r["behaviour_logp"]),
        reference_logp: numbers(&r["old_logp"]),
    };
    list(&case["groups"]).iter().map(|group| list(group).iter().map(response).collect()).collect()
}

/// The settings of an entry, read through their names as a user would write them.
fn settings(case: &Value, entry: &Value) -> Settings {
    let mut written = case["params"].as_object().unwrap().clone();
    for field in ["advantage", "aggregation", "policy", "correction"] {
        written.insert(field.to_owned(), entry[field].clone());
    }
    serde_json::from_value(Value::Object(written)).unwrap()
}

/// What the rewards of each group are made of, where a case says.
fn components(case: &Value) -> Vec<Vec<RewardComponent>> {
    let component = |value: &Value| RewardComponent {
        weight: value["weight"].as_f64().unwrap(),
        values: list(&value["values"]).iter().map(|x| x.as_f64().unwrap_or(f64::NAN)).collect(),
    };
    let groups = case["components"].as_array().map_or(&[][..], Vec::as_slice);
    groups.iter().map(|group| list(group).iter().map(component).collect()).collect()
}

/// Calls `check` with every entry of every case: what it is, its settings, the step with its components, what is
/// expected.
fn for_each_entry(file: &Path, mut check: impl FnMut(&str, &Settings, (&Step, &[Vec<RewardComponent>]), &Value)) {
    let golden: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    for (index, case) in list(&golden["cases"]).iter().enumerate() {
        let step = step(case);
        let components = components(case);
        for entry in list(&case["expected"]) {
            let what = format!("case {index} ({}), {}", case["kind"], settings(case, entry));
            check(&what, &settings(case, entry), (&step, &components), entry);
        }
    }
}

fn compute(settings: &Settings, (step, components): (&Step, &[Vec<RewardComponent>])) -> BatchLoss<f64> {
    batch_loss_of_components(settings, &views(step), components).unwrap()
}

fn assert_nested(what: &str, ours: &[Vec<f64>], expected: &Value) {
    assert_eq!(ours.len(), list(expected).len(), "{what}");
    for (g, (ours, expected)) in ours.iter().zip(list(expected)).enumerate() {
        let expected = numbers(expected);
        assert_eq!(ours.len(), expected.len(), "{what}, group {g}");
        for (i, (&ours, &expected)) in ours.iter().zip(&expected).enumerate() {
            assert!(close(ours, expected), "{what}, group {g}, {i}: {ours:e} and not {expected:e}");
        }
    }
}

fn advantages(file: &Path) {
    for_each_entry(file, |what, settings, step, entry| {
        assert_nested(what, &compute(settings, step).advantages, &entry["advantages"]);
    });
}

fn weights(file: &Path) {
    for_each_entry(file, |what, settings, step, entry| {
        assert_nested(what, &compute(settings, step).weights, &entry["weights"]);
    });
}

fn losses(file: &Path) {
    for_each_entry(file, |what, settings, step, entry| {
        let ours = compute(settings, step).loss;
        let expected = entry["loss"].as_f64().unwrap();
        assert!(close(ours, expected), "{what}: {ours:e} and not {expected:e}");
    });
}

fn gradients(file: &Path) {
    for_each_entry(file, |what, settings, step, entry| {
        let batch = compute(settings, step);
        assert_eq!(batch.gradients.len(), list(&entry["grad_logp"]).len(), "{what}");
        for (gradients, expected) in batch.gradients.iter().zip(list(&entry["grad_logp"])) {
            assert_nested(what, gradients, expected);
        }
    });
}

fn single_precision(file: &Path) {
    for_each_entry(file, |what, settings, (step, components), entry| {
        let narrow = |values: &[f64]| values.iter().map(|&x| x as f32).collect::<Vec<f32>>();
        let narrowed = |r: &Owned| Owned {
            reward: r.reward,
            valid: r.valid,
            mask: r.mask.clone(),
            logp: narrow(&r.logp),
            old_logp: narrow(&r.old_logp),
            rollout_logp: narrow(&r.rollout_logp),
            reference_logp: narrow(&r.reference_logp),
        };
        let step: Step<f32> = step.iter().map(|group| group.iter().map(narrowed).collect()).collect();
        let batch = batch_loss_of_components(settings, &views(&step), components).unwrap();
        let expected = entry["loss"].as_f64().unwrap();
        assert!((batch.loss - expected).abs() < 1e-5, "{what}: {} and not {expected}", batch.loss);
        let gradients = batch.gradients.iter().flatten().flatten();
        let expected = list(&entry["grad_logp"]).iter().flat_map(list).flat_map(numbers);
        for (&ours, expected) in gradients.zip(expected) {
            assert!((f64::from(ours) - expected).abs() < 1e-5, "{what}: {ours} and not {expected}");
        }
    });
}
