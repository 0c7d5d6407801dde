//! What scipy, statsmodels and rliable compute: `tests/golden/goldens.json`, made by the script beside it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its numbers are shown with --nocapture"
)]

use evenkeel_statistics::{
    Comparison, Evidence, Interval, Noise, Runs, Settings, Test, compare, differences, drop_by_chance,
    interquartile_mean, peak_by_chance, probability_of_improvement,
};
use serde_json::Value;

fn goldens(name: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("golden/goldens.json")).unwrap();
    all[name].as_array().unwrap().clone()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn lists(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(numbers).collect()
}

#[track_caller]
fn assert_close(found: f64, expected: &Value, tolerance: f64) {
    let expected = expected.as_f64().unwrap();
    assert!((found - expected).abs() <= tolerance * expected.abs().max(1e-3), "{found} {expected}");
}

#[track_caller]
fn assert_interval(found: Option<Interval>, expected: &Value, tolerance: f64) {
    assert_eq!(found.is_some(), !expected.is_null(), "{found:?} {expected}");
    if let Some(found) = found {
        assert_close(found.low, &expected[0], tolerance);
        assert_close(found.high, &expected[1], tolerance);
    }
}

/// Two bootstraps with different random numbers: their ends differ by a few hundredths of the width.
#[track_caller]
fn assert_near(found: Option<Interval>, expected: &Value) {
    let (found, expected) = (found.unwrap(), numbers(expected));
    let width = expected[1] - expected[0];
    let off = [found.low - expected[0], found.high - expected[1]].map(|off| off.abs() / width);
    println!("ends differ by {:.1} and {:.1} % of the width", 100.0 * off[0], 100.0 * off[1]);
    assert!(off.into_iter().all(|off| off < 0.05), "{found:?} {expected:?}");
}

fn test(comparison: &Comparison) -> Test {
    let Evidence::Tested(test) = comparison.evidence else { panic!("eight pairs or more are tested: {comparison:?}") };
    test
}

#[test]
fn paired_comparisons_are_those_of_scipy_and_statsmodels() {
    for family in goldens("families") {
        let members = family.as_array().unwrap();
        let pairs = |member: &Value| differences(&numbers(&member["first"]), &numbers(&member["second"])).unwrap();
        let family: Vec<Vec<f64>> = members.iter().map(pairs).collect();
        for (found, expected) in compare(&family, &Settings::default()).unwrap().iter().zip(members) {
            let difference = found.difference.unwrap();
            assert_close(difference.value, &expected["mean"], 1e-12);
            assert_close(difference.standard_error.unwrap(), &expected["standard_error"], 1e-12);
            assert_interval(found.intervals.student, &expected["student"], 1e-11);
            if !expected["bootstrap"].is_null() {
                assert_near(found.intervals.bootstrap, &expected["bootstrap"]);
            }
            assert_interval(found.intervals.exact, &expected["exact"], 1e-12);
            assert_close(test(found).p_value, &expected["p_value"], 1e-12);
            assert_close(test(found).adjusted_p_value, &expected["adjusted_p_value"], 1e-12);
        }
    }
}

#[test]
fn interquartile_means_are_rliables() {
    for case in goldens("interquartile_means") {
        let found = interquartile_mean(&lists(&case["tasks"]), Runs::OfOneTask, &Settings::default()).unwrap();
        assert_close(found.value, &case["value"], 1e-12);
        assert_near(found.percentile, &case["percentile"]);
    }
}

#[test]
fn probabilities_of_improvement_are_rliables_and_their_intervals_newcombes() {
    for case in goldens("improvements") {
        let (first, second) = (lists(&case["first"]), lists(&case["second"]));
        let found = probability_of_improvement(&first, &second, Runs::OfOneTask, &Settings::default()).unwrap();
        assert_close(found.value, &case["value"], 1e-12);
        assert_interval(Some(found.interval), &case["interval"], 1e-10);
    }
}

#[test]
fn heights_by_chance_are_those_of_adaptive_quadrature() {
    let noise = Noise::independent(1.0).unwrap();
    for case in goldens("chances") {
        let evaluations = usize::try_from(case["evaluations"].as_u64().unwrap()).unwrap();
        let (peak, drop) = (peak_by_chance(evaluations, noise).unwrap(), drop_by_chance(evaluations, noise).unwrap());
        assert_close(peak.expected, &case["expected"], 1e-9);
        assert_close(peak.exceeded_by_5_percent, &case["peak_exceeded"], 1e-11);
        assert_close(drop.exceeded_by_5_percent, &case["drop_exceeded"], 1e-9);
    }
}
