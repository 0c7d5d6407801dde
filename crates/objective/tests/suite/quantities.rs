//! The paper's quantities of a step.

use evenkeel_objective::{Aggregation, GroupView, PolicyTerm, Pull, Quantities, Settings};
use proptest::prelude::*;

use crate::support::{Holes, Owned, Rewards, Step, all_close, close, compute, constants, steps};

fn group<'a>(advantages: &'a [f64], trainable_tokens: &'a [usize], correct: &'a [Option<bool>]) -> GroupView<'a> {
    GroupView { advantages, trainable_tokens, correct }
}

fn measure(settings: &Settings, step: &Step) -> Quantities {
    let advantages = compute(settings, step).advantages;
    let trainable: Vec<Vec<usize>> = step.iter().map(|g| g.iter().map(Owned::trainable).collect()).collect();
    let correct: Vec<Vec<_>> = step.iter().map(|g| g.iter().map(|r| Some(r.reward == 1.0)).collect()).collect();
    let views: Vec<GroupView<'_>> =
        (0..step.len()).map(|g| group(&advantages[g], &trainable[g], &correct[g])).collect();
    Quantities::of(&views, settings.constants()).unwrap()
}

#[test]
fn length_variation_is_the_population_deviation_over_the_mean() {
    let q = Quantities::of(
        &[
            group(&[1.0, -1.0], &[1, 3], &[Some(true), Some(false)]),
            group(&[1.0, -1.0], &[4, 4], &[Some(true), Some(false)]),
        ],
        constants(0),
    );
    let q = q.unwrap();
    assert!(close(q.length_variation.unwrap(), (0.5 + 0.0) / 2.0));
    assert!(close(q.length_variation_pooled.unwrap(), 1.5_f64.sqrt() / 3.0));
}

#[test]
fn length_gap_averages_over_groups_with_both_signs() {
    let mixed = group(&[1.0, -0.5, -0.5], &[2, 4, 8], &[Some(true), Some(false), Some(false)]);
    let level = group(&[0.0, 0.0], &[5, 50], &[Some(true), Some(true)]);
    let q = Quantities::of(&[mixed, level], constants(0)).unwrap();
    assert_eq!(q.length_gap, Some(4.0));
    assert_eq!(q.length_gap_groups, 1);
    assert!(close(q.length_gap_pooled.unwrap(), 6.0 - 57.0 / 3.0));
}

#[test]
fn an_answer_of_which_nobody_says_whether_it_is_correct_is_in_no_comparison_of_right_and_wrong() {
    let known = [Some(true), Some(false), None];
    let q = Quantities::of(&[group(&[1.0, -0.5, -0.5], &[2, 4, 800], &known)], constants(0)).unwrap();
    assert_eq!(q.length_gap_pooled, Some(2.0));
    let q = Quantities::of(&[group(&[1.0, -1.0], &[2, 4], &[None, None])], constants(0)).unwrap();
    assert_eq!((q.length_gap, q.length_gap_pooled), (Some(2.0), None));
}

#[test]
fn responses_without_a_trainable_token_count_nowhere() {
    let with = group(&[1.0, -1.0, 0.0], &[3, 5, 0], &[Some(true), Some(false), Some(false)]);
    let without = group(&[1.0, -1.0], &[3, 5], &[Some(true), Some(false)]);
    assert_eq!(Quantities::of(&[with], constants(8)), Quantities::of(&[without], constants(8)));
}

#[test]
fn what_does_not_exist_is_absent() {
    let q = Quantities::of(&[group(&[0.0], &[7], &[Some(true)])], constants(0)).unwrap();
    assert_eq!((q.length_variation, q.length_variation_pooled), (None, None));
    assert_eq!((q.length_gap, q.length_gap_pooled), (None, None));
    assert_eq!(q.pulls[&Aggregation::Token].bias(), None);
    assert!(!q.pulls.contains_key(&Aggregation::SequenceSum));
    let nothing = Quantities::of(&[], constants(1)).unwrap();
    assert_eq!(nothing.pulls[&Aggregation::BatchToken], Pull { positive: 0.0, negative: 0.0 });
}

#[test]
fn quantities_are_written_under_the_names_of_the_rules() {
    let q = Quantities::of(&[group(&[1.0, -1.0], &[6, 2], &[Some(true), Some(false)])], constants(8)).unwrap();
    let written = serde_json::to_value(&q).unwrap();
    assert!(close(written["pulls"]["token"]["positive"].as_f64().unwrap(), 0.75));
    assert!(close(written["pulls"]["balanced"]["negative"].as_f64().unwrap(), 0.5));
    assert_eq!(serde_json::from_value::<Quantities>(written).unwrap(), q);
}

/// Computed by hand: right answers of 2 and 4 tokens, wrong ones of 6 and 8, one group, advantages of 1.
#[test]
fn the_gradient_is_shared_out_among_short_and_long_answers_by_rule() {
    let q = Quantities::of(
        &[group(&[1.0, 1.0, -1.0, -1.0], &[2, 4, 6, 8], &[Some(true), Some(true), Some(false), Some(false)])],
        constants(10),
    )
    .unwrap();
    assert_eq!(q.length_quarters, Some([2.0, 4.0, 6.0, 8.0]));
    let share = |rule| q.by_length[&rule].share;
    assert!(all_close(&share(Aggregation::Sequence), &[0.25; 4]));
    // A half for either side, and within it by tokens.
    assert!(all_close(&share(Aggregation::Balanced), &[1.0 / 6.0, 1.0 / 3.0, 3.0 / 14.0, 4.0 / 14.0]));
    for rule in [Aggregation::Token, Aggregation::BatchToken, Aggregation::SequenceSum] {
        assert!(all_close(&share(rule), &[0.1, 0.2, 0.3, 0.4]), "{rule}");
        assert!(all_close(&q.by_length[&rule].weight, &[1.0; 4]), "{rule}");
    }
    // 1 / T relative to its mean over tokens, 4 / 20.
    for (found, length) in q.by_length[&Aggregation::Sequence].weight.into_iter().zip([2.0, 4.0, 6.0, 8.0]) {
        assert!(close(found, 5.0 / length));
    }
    let nothing = Quantities::of(&[group(&[0.0, 0.0], &[2, 4], &[Some(true), Some(true)])], constants(10)).unwrap();
    assert!(nothing.by_length.is_empty() && nothing.length_quarters.is_none());
}

#[test]
fn slices_of_different_lengths_are_refused_with_their_group() {
    let error =
        Quantities::of(&[group(&[1.0], &[1], &[Some(true)]), group(&[1.0], &[1], &[])], constants(0)).unwrap_err();
    assert_eq!(error.to_string(), "group 1: length of correct is 0, allowed: 1, the length of trainable_tokens");
}

proptest! {
    #[test]
    fn both_sides_pull_alike_under_sequence_and_balanced(step in steps(Rewards::Any, Holes::None)) {
        let q = measure(&Settings::default(), &step);
        for aggregation in [Aggregation::Sequence, Aggregation::Balanced] {
            let pull = q.pulls[&aggregation];
            prop_assert!((pull.positive - pull.negative).abs() < 1e-12);
        }
    }

    #[test]
    fn the_pulls_of_the_rule_that_trains_are_those_of_its_weights(step in steps(Rewards::Binary, Holes::Some)) {
        for &aggregation in Aggregation::ALL {
            let policy = if aggregation == Aggregation::Luspo { PolicyTerm::Gspo } else { PolicyTerm::Ppo };
            let settings = Settings { aggregation, policy, max_tokens: 100, ..Settings::default() };
            let batch = compute(&settings, &step);
            let mut expected = Pull::default();
            for (g, group) in step.iter().enumerate() {
                for (i, response) in group.iter().enumerate() {
                    let pull = batch.weights[g][i] * batch.advantages[g][i] * response.trainable() as f64;
                    if pull > 0.0 { expected.positive += pull } else { expected.negative -= pull }
                }
            }
            let pull = measure(&settings, &step).pulls[&aggregation];
            prop_assert!(close(pull.positive, expected.positive) && close(pull.negative, expected.negative));
        }
    }

    #[test]
    fn shares_add_up_and_depend_neither_on_the_order_of_responses_nor_on_that_of_groups(
        step in steps(Rewards::Any, Holes::Some),
    ) {
        let settings = Settings { max_tokens: 100, ..Settings::default() };
        let q = measure(&settings, &step);
        let mut turned: Step = step.clone();
        turned.reverse();
        turned.iter_mut().for_each(|group| group.reverse());
        let other = measure(&settings, &turned);
        prop_assert_eq!(q.by_length.len(), other.by_length.len());
        for (rule, of_rule) in &q.by_length {
            prop_assert!(close(of_rule.share.iter().sum::<f64>(), 1.0));
            let found = of_rule.share.iter().chain(&of_rule.weight);
            for (a, b) in found.zip(other.by_length[rule].share.iter().chain(&other.by_length[rule].weight)) {
                prop_assert!((a - b).abs() < 1e-9, "{rule}: {a} and {b}");
            }
        }
    }

    #[test]
    fn under_token_the_bias_is_above_one_just_where_right_answers_are_longer(
        step in steps(Rewards::Binary, Holes::None).prop_map(|mut step| { step.truncate(1); step }),
    ) {
        let q = measure(&Settings::default(), &step);
        if let Some(gap) = q.length_gap {
            let bias = q.pulls[&Aggregation::Token].bias().unwrap();
            prop_assert!(gap == 0.0 || (bias > 1.0) == (gap < 0.0), "gap {gap}, bias {bias}");
        }
    }
}
