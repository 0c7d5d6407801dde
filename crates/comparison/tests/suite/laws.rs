//! What holds for all runs.

use evenkeel_comparison::{Comparison, Measure, Run};
use proptest::prelude::*;

use crate::support::{arm, compare, options};

/// Two arms of accuracies that have room for a constant.
fn arms() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    let accuracies = |seeds| prop::collection::vec((0..40_u8).prop_map(|right| 0.1 + 0.01 * f64::from(right)), seeds);
    (2..10_usize).prop_flat_map(move |seeds| (accuracies(seeds), accuracies(seeds)))
}

fn runs((one, other): &(Vec<f64>, Vec<f64>)) -> Vec<Run> {
    [arm("balanced", one), arm("token", other)].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_order_of_runs_does_not_matter(arms in arms(), order in any::<u64>()) {
        let mut runs = runs(&arms);
        let known = compare(&runs);
        // Any order follows from sorting by a hash of the name.
        let key = |run: &Run| {
            run.name.bytes().fold(order, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
        };
        runs.sort_by_key(key);
        prop_assert_eq!(compare(&runs), known);
    }

    #[test]
    fn equal_arms_are_never_a_finding((accuracies, _) in arms()) {
        let comparison = compare(&runs(&(accuracies.clone(), accuracies)));
        prop_assert!(comparison.tasks[0].pairs.iter().all(|pair| !pair.finding.is_shown()));
    }

    #[test]
    fn a_constant_added_to_both_arms_changes_no_difference(arms in arms(), constant in 0.0_f64..0.4) {
        let moved = |runs: Vec<Run>| -> Vec<Run> {
            runs.into_iter().map(|mut run| {
                for scores in run.evaluations.iter_mut().flat_map(|evaluation| evaluation.benchmarks.values_mut()) {
                    scores.mean.value += constant;
                }
                run
            }).collect()
        };
        let known = compare(&runs(&arms));
        let found = compare(&moved(runs(&arms)));
        let of_accuracy = |measure| {
            matches!(measure, Measure::LastAccuracy | Measure::PeakAccuracy | Measure::AccuracyDrop | Measure::AccuracyArea)
        };
        for (known, found) in known.tasks[0].pairs.iter().zip(&found.tasks[0].pairs).filter(|(pair, _)| of_accuracy(pair.measure)) {
            prop_assert!((known.difference.value - found.difference.value).abs() < 1e-12);
            prop_assert_eq!(known.sign_flip, found.sign_flip);
            prop_assert_eq!(known.finding, found.finding);
            let ends = |pair: &evenkeel_comparison::PairedDifference| {
                pair.difference.interval.map(|interval| (interval.low, interval.high))
            };
            match (ends(known), ends(found)) {
                (Some(known), Some(found)) => prop_assert!((known.0 - found.0).abs() < 1e-9 && (known.1 - found.1).abs() < 1e-9),
                (known, found) => prop_assert_eq!(known, found),
            }
        }
    }

    #[test]
    fn swapping_the_names_of_arms_turns_the_differences_round((one, other) in arms()) {
        let forth = compare(&runs(&(one.clone(), other.clone())));
        let back = compare(&runs(&(other, one)));
        for (forth, back) in forth.tasks[0].pairs.iter().zip(&back.tasks[0].pairs) {
            prop_assert!((forth.difference.value + back.difference.value).abs() < 1e-12);
            prop_assert_eq!(forth.adjusted_p, back.adjusted_p);
            prop_assert_eq!(forth.finding.is_shown(), back.finding.is_shown());
        }
    }

    #[test]
    fn json_gives_the_same_comparison_back(arms in arms()) {
        let comparison = compare(&runs(&arms));
        let json = serde_json::to_string(&comparison).unwrap();
        let read: Comparison = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(serde_json::to_string(&read).unwrap(), json);
        prop_assert_eq!(read, comparison);
    }

    #[test]
    fn the_same_runs_give_the_same_bytes(arms in arms()) {
        let json = || serde_json::to_string(&Comparison::of(&runs(&arms), &options()).unwrap()).unwrap();
        prop_assert_eq!(json(), json());
    }
}
