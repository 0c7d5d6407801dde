//! When a difference is called one.

use evenkeel_comparison::{ConclusionKind, Finding, Measure};
use evenkeel_seeds::{Stream, rng};
use rand_distr::{Distribution, StandardNormal};

use crate::support::{arm, around, compare, pair, said};

#[test]
fn a_difference_that_every_seed_shows_is_shown_with_eight_seeds() {
    let comparison = compare(&[arm("balanced", &around(0.6, 8, 1)), arm("token", &around(0.5, 8, 2))].concat());
    let pair = pair(&comparison, Measure::LastAccuracy);
    assert_eq!(pair.finding, Finding::FirstHigher);
    assert_eq!((pair.sign_flip.p, pair.adjusted_p), (0.0078125, 0.0078125));
    let interval = pair.difference.interval.unwrap();
    assert!(interval.low > 0.0 && (interval.low..interval.high).contains(&pair.difference.value));
    let shown = said(&comparison, ConclusionKind::Shown);
    assert!(shown.starts_with("The last mean@k of balanced is higher than that of token by 0.1"), "{shown}");
    assert!(shown.contains("8 paired seeds; exact p 0.0078, after Holm 0.0078"), "{shown}");
}

#[test]
fn the_same_difference_is_no_finding_with_seven_seeds() {
    let comparison = compare(&[arm("balanced", &around(0.6, 7, 1)), arm("token", &around(0.5, 7, 2))].concat());
    let pair = pair(&comparison, Measure::LastAccuracy);
    assert_eq!(pair.finding, Finding::TooFewSeeds { needed: 8 });
    assert!(pair.difference.interval.unwrap().excludes(0.0), "numbers are reported all the same");
    assert_eq!(
        (said(&comparison, ConclusionKind::Shown), said(&comparison, ConclusionKind::NotShown)),
        (String::new(), String::new())
    );
    let none = said(&comparison, ConclusionKind::Inconclusive);
    assert_eq!(
        none,
        "Nothing can be concluded about any pair of arms: 7 seeds at most are paired, and a finding takes 8. With 7 \
         the exact test cannot go below p = 0.016, before Holm's correction for 1 pair."
    );
}

#[test]
fn five_arms_take_nine_seeds() {
    let arms = |seeds| -> Vec<_> {
        (0..5_u8)
            .flat_map(|at| arm(&format!("rule-{at}"), &around(0.3 + 0.1 * f64::from(at), seeds, u64::from(at))))
            .collect()
    };
    let findings = |seeds| {
        let comparison = compare(&arms(seeds));
        let of_last = comparison.tasks[0].pairs.iter().filter(|pair| pair.measure == Measure::LastAccuracy);
        of_last.map(|pair| pair.finding).collect::<Vec<_>>()
    };
    assert_eq!(findings(8), [Finding::TooFewSeeds { needed: 9 }; 10]);
    assert_eq!(findings(9), [Finding::SecondHigher; 10]);
}

#[test]
fn differences_around_zero_are_not_shown_and_not_called_equality() {
    let comparison = compare(&[arm("balanced", &around(0.5, 8, 1)), arm("token", &around(0.5, 8, 2))].concat());
    assert_eq!(pair(&comparison, Measure::LastAccuracy).finding, Finding::NotShown);
    let text = said(&comparison, ConclusionKind::NotShown);
    assert!(text.contains("That is not evidence that they are equal"), "{text}");
}

#[test]
fn pairs_about_which_the_same_is_said_share_a_sentence() {
    let arms = [("balanced", 1), ("sequence", 2), ("token", 3)].map(|(name, kind)| arm(name, &around(0.5, 8, kind)));
    let comparison = compare(&arms.concat());
    let text = said(&comparison, ConclusionKind::NotShown);
    assert_eq!(text.matches("No difference in last mean@k").count(), 1, "{text}");
    for pair in comparison.tasks[0].pairs.iter().filter(|pair| pair.measure == Measure::LastAccuracy) {
        let (interval, label) = (pair.difference.interval.unwrap(), |arm: usize| &comparison.tasks[0].arms[arm].label);
        let first = label(pair.first);
        let second = label(pair.second);
        assert!(
            text.contains(&format!("{first} and {second} ({:.3} to {:.3})", interval.low, interval.high)),
            "{text}"
        );
    }
}

#[test]
fn equal_arms_are_no_finding_in_any_measure() {
    let accuracies = around(0.5, 8, 3);
    let comparison = compare(&[arm("balanced", &accuracies), arm("token", &accuracies)].concat());
    for pair in &comparison.tasks[0].pairs {
        assert_eq!((pair.finding, pair.difference.value, pair.sign_flip.p), (Finding::NoSpread, 0.0, 1.0), "{pair:?}");
    }
}

#[test]
fn pairs_are_seeds_that_both_arms_have() {
    let mut runs = [arm("balanced", &around(0.6, 10, 1)), arm("token", &around(0.5, 9, 2))].concat();
    runs.retain(|run| (run.arm.label().as_str(), run.seed) != ("balanced", 3));
    let comparison = compare(&runs);
    assert_eq!(pair(&comparison, Measure::LastAccuracy).seeds, [0, 1, 2, 4, 5, 6, 7, 8]);
}

/// Three arms of one distribution, 8 seeds, 300 comparisons: at most 5 % may show a difference in the primary measure,
/// and bounds are four and a half standard errors.
#[test]
fn arms_that_are_alike_are_seldom_called_different() {
    let mut data = rng(12, Stream::Bootstrap);
    let experiments = 300;
    let mut found = 0;
    for _ in 0..experiments {
        let mut runs = Vec::new();
        for name in ["balanced", "sequence", "token"] {
            let last: Vec<f64> = (0..8)
                .map(|_| {
                    let z: f64 = StandardNormal.sample(&mut data);
                    (0.5 + 0.05 * z).clamp(0.0, 1.0)
                })
                .collect();
            runs.extend(arm(name, &last));
        }
        let comparison = compare(&runs);
        found += usize::from(
            comparison.tasks[0]
                .pairs
                .iter()
                .any(|pair| pair.measure == Measure::LastAccuracy && pair.finding.is_shown()),
        );
    }
    let share = found as f64 / f64::from(experiments);
    assert!(share > 0.0 && share < 0.05 + 4.5 * (0.05_f64 * 0.95 / f64::from(experiments)).sqrt(), "{share}");
}
