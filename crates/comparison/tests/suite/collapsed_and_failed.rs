//! Seeds that went wrong are never lost.

use evenkeel_comparison::{Collapse, Comparison, ConclusionKind, FailedSeed, Measure, Options};

use crate::support::{arm, around, compare, failed, options, pair, run, said};

#[test]
fn a_collapsed_seed_counts_in_every_number() {
    let mut runs = arm("token", &[0.5, 0.5, 0.5, 0.0]);
    runs[3].rewards = (1..=30).map(|step| (step, if step < 15 { 0.4 } else { 0.0 })).collect();
    let comparison = compare(&runs);
    let summary = &comparison.tasks[0].arms[0];
    let collapsed: Vec<_> = summary.collapsed.iter().map(|collapsed| (collapsed.seed, collapsed.collapse)).collect();
    assert_eq!(collapsed, [(3, Collapse::WorseThanBefore { first: 0.4, last: 0.0 })]);
    assert_eq!(summary.measure(Measure::LastAccuracy).unwrap().by_seed, [0.5, 0.5, 0.5, 0.0]);
    let text = said(&comparison, ConclusionKind::Caution);
    let expected =
        "1 of 4 seeds of token collapsed: seed 3 (the reward fell from 0.400 to 0.000). They count in every number.";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_reward_that_is_no_number_counts_as_nothing() {
    let mut runs = arm("token", &[0.5, 0.5]);
    runs[1].rewards[29].1 = f64::NAN;
    let comparison = compare(&runs);
    let summary = &comparison.tasks[0].arms[0];
    assert_eq!(summary.collapsed[0].collapse, Collapse::NotFinite { step: 30 });
    let rewards = &summary.measure(Measure::LastReward).unwrap().by_seed;
    assert!((rewards[0] - rewards[1] - 0.08).abs() < 1e-12, "{rewards:?}: a tenth of the last reward, 0.8");
}

#[test]
fn a_failed_seed_stands_with_its_reason_and_the_rest_goes_on() {
    let mut runs = [arm("balanced", &around(0.6, 9, 1)), arm("token", &around(0.5, 9, 2))].concat();
    runs[11] = failed(run("token", 2, &[]), "the learner ran out of memory");
    let comparison = compare(&runs);
    let token = &comparison.tasks[0].arms[1];
    assert_eq!(token.failed, [FailedSeed { seed: 2, reason: "the learner ran out of memory".to_owned() }]);
    assert_eq!(token.seeds, [0, 1, 3, 4, 5, 6, 7, 8]);
    assert!(pair(&comparison, Measure::LastAccuracy).finding.is_shown());
    let text = said(&comparison, ConclusionKind::Caution);
    assert!(
        text.contains("1 seed of token failed and is in no number: seed 2 (the learner ran out of memory)."),
        "{text}"
    );
}

#[test]
fn a_seed_with_an_evaluation_that_was_not_verified_is_named() {
    let mut runs = arm("token", &[0.5, 0.5, 0.5, 0.6]);
    let verified = [Some(true), None, Some(false), Some(false)];
    for (run, verified) in runs.iter_mut().zip(verified) {
        run.evaluations.iter_mut().for_each(|evaluation| evaluation.verified = verified);
    }
    let comparison = compare(&runs);
    assert_eq!(comparison.tasks[0].arms[0].unverified, [2, 3]);
    let text = said(&comparison, ConclusionKind::Caution);
    assert!(text.contains("Evaluations of 2 seeds of token were not verified: seed 2 and 3."), "{text}");
}

#[test]
fn an_arm_of_which_every_seed_failed_is_still_listed() {
    let mut runs = arm("balanced", &[0.5, 0.6]);
    runs.push(failed(run("token", 0, &[]), "x"));
    let comparison = compare(&runs);
    let token = &comparison.tasks[0].arms[1];
    assert_eq!((token.seeds.len(), token.measures.len(), token.failed.len()), (0, 0, 1));
    assert!(comparison.tasks[0].pairs.is_empty());
    assert!(comparison.to_text().contains("token"));
}

#[test]
fn seeds_that_never_reach_a_reward_count_with_their_last_step() {
    let mut runs = arm("token", &[0.5, 0.5]);
    runs[1].rewards.iter_mut().for_each(|(_, reward)| *reward = 0.1);
    // Rewards of 0.2 + 0.02 per step: the mean of ten steps reaches 0.49 at step 19 (0.2 + 0.02 * 14.5).
    let comparison = Comparison::of(&runs, &Options { reward: Some(0.49 - 1e-9), ..options() }).unwrap();
    let steps = comparison.tasks[0].arms[0].measure(Measure::StepsToReward).unwrap();
    assert_eq!((steps.by_seed.as_slice(), steps.not_reached), (&[19.0, 30.0][..], Some(1)));
    assert_eq!(compare(&runs).tasks[0].arms[0].measure(Measure::StepsToReward), None);
}
