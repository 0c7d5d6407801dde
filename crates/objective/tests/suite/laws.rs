//! Laws of the objective that hold for any numbers, one law in each test.

use evenkeel_objective::{
    Advantage, Aggregation, Constants, MiniBatchCounts, PolicyStats, PolicyTerm, Settings, advantages, group_weights,
    regularizer_weights, response_kl, response_loss,
};
use proptest::prelude::*;

use crate::support::{Holes, Owned, Rewards, Step, all_close, any_settings, close, compute, flat, on_policy, steps};

fn with(aggregation: Aggregation, policy: PolicyTerm) -> Settings {
    Settings { aggregation, policy, max_tokens: 128, ..Settings::default() }
}

/// Sum of w over the trainable tokens of each group that passes the filter, times P.
fn weight_sums(step: &Step, aggregation: Aggregation, keep: impl Fn(&[f64]) -> bool) -> Vec<f64> {
    let batch = compute(&with(aggregation, PolicyTerm::Ppo), step);
    let groups = step.iter().zip(&batch.weights).zip(&batch.advantages);
    let kept = groups.filter(|((group, _), a)| keep(a) && group.iter().any(|r| r.trainable() > 0));
    kept.map(|((group, w), _)| group.iter().zip(w).map(|(r, w)| w * r.trainable() as f64).sum::<f64>())
        .map(|sum| sum * batch.counts.groups as f64)
        .collect()
}

/// Rewards that are drawn in any order, then set so that both sides are in every group.
fn with_both_sides(mut step: Step) -> Step {
    for group in &mut step {
        group[0].reward = 0.0;
        group[1].reward = 1.0;
    }
    step
}

fn with_equal_lengths(mut step: Step) -> Step {
    for response in step.iter_mut().flatten() {
        *response = Owned { reward: response.reward, ..repeated(response, 40) };
    }
    step
}

fn repeated(response: &Owned, length: usize) -> Owned {
    let repeat = |x: &[f64]| x.iter().copied().cycle().take(length).collect::<Vec<f64>>();
    Owned {
        mask: vec![true; length],
        logp: repeat(&response.logp),
        old_logp: repeat(&response.old_logp),
        rollout_logp: repeat(&response.rollout_logp),
        reference_logp: repeat(&response.reference_logp),
        ..response.clone()
    }
}

fn mean_length(group: &[Owned], reward: f64) -> f64 {
    let lengths: Vec<f64> = group.iter().filter(|r| r.reward == reward).map(|r| r.trainable() as f64).collect();
    lengths.iter().sum::<f64>() / lengths.len() as f64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_weights_of_a_group_sum_to_one_over_p_under_token_and_sequence(step in steps(Rewards::Any, Holes::Some)) {
        for aggregation in [Aggregation::Token, Aggregation::Sequence] {
            for sum in weight_sums(&step, aggregation, |_| true) {
                prop_assert!(close(sum, 1.0), "{aggregation}: {sum}");
            }
        }
    }

    #[test]
    fn the_weights_of_a_group_with_both_sides_sum_to_one_over_p_under_the_balanced_rules(
        step in steps(Rewards::Binary, Holes::None).prop_map(with_both_sides),
    ) {
        for aggregation in [Aggregation::Balanced, Aggregation::BalancedCount] {
            for sum in weight_sums(&step, aggregation, |_| true) {
                prop_assert!(close(sum, 1.0), "{aggregation}: {sum}");
            }
        }
    }

    #[test]
    fn under_vl_norm_with_alpha_1_every_response_of_a_step_has_the_same_weight_and_with_0_every_token(
        step in steps(Rewards::Any, Holes::Some),
    ) {
        let weights = |vl_norm_alpha| {
            let settings = Settings { vl_norm_alpha, ..with(Aggregation::VlNorm, PolicyTerm::Ppo) };
            let batch = compute(&settings, &step);
            let all = step.iter().flatten().zip(batch.weights.concat()).filter(|(r, _)| r.trainable() > 0);
            let all: Vec<(f64, f64)> = all.map(|(r, w)| (w, r.trainable() as f64)).collect();
            (all, batch.counts.responses as f64)
        };
        let (all, responses) = weights(0.0);
        for (w, _) in all {
            prop_assert!(close(w, 1.0 / (128.0 * responses)), "{w}");
        }
        let (all, _) = weights(1.0);
        let lengths: f64 = all.iter().map(|(_, t)| 1.0 / t).sum();
        for (w, t) in all {
            prop_assert!(close(w * t, 1.0 / (128.0 * lengths)), "{w} for {t}");
        }
    }

    #[test]
    fn vl_norm_with_alpha_0_is_sequence_sum_where_every_group_has_as_many_responses(
        step in steps(Rewards::Any, Holes::None).prop_map(|mut step| {
            step.iter_mut().for_each(|group| group.truncate(2));
            step
        }),
    ) {
        let settings = Settings { vl_norm_alpha: 0.0, ..with(Aggregation::VlNorm, PolicyTerm::Ppo) };
        let vl_norm = compute(&settings, &step);
        let sum = compute(&with(Aggregation::SequenceSum, PolicyTerm::Ppo), &step);
        prop_assert!(close(vl_norm.loss, sum.loss));
        prop_assert!(all_close(&flat(&vl_norm), &flat(&sum)));
    }

    #[test]
    fn vl_norm_has_the_least_variance_of_all_weights_where_variance_grows_with_length(
        lengths in prop::collection::vec(1_usize..200, 2..12),
        other in prop::collection::vec(0.01..1.0, 12),
    ) {
        // The gradients of responses have variances V T; combinations have equal sums of coefficients, so that none is
        // biased.
        let constants = Constants { max_tokens: 1, vl_norm_alpha: 1.0, sides: None };
        let mut w = vec![0.0; lengths.len()];
        let counts = group_weights(Aggregation::VlNorm, &vec![1.0; lengths.len()], &lengths, constants, &mut w).unwrap();
        let scale = MiniBatchCounts::from_iter([counts]).normalizer(Aggregation::VlNorm);
        let variance = |x: &[f64]| -> f64 { x.iter().zip(&lengths).map(|(x, &t)| x * x * t as f64).sum() };
        let ours: Vec<f64> = w.iter().map(|w| w * scale).collect();
        prop_assert!(close(ours.iter().sum(), 1.0));
        let other = &other[..lengths.len()];
        let sum: f64 = other.iter().sum();
        let other: Vec<f64> = other.iter().map(|x| x / sum).collect();
        prop_assert!(variance(&ours) <= variance(&other) * (1.0 + 1e-12));
    }

    #[test]
    fn the_balanced_rules_agree_where_rewards_are_binary(step in steps(Rewards::Binary, Holes::Some)) {
        let balanced = compute(&with(Aggregation::Balanced, PolicyTerm::Ppo), &step);
        let count = compute(&with(Aggregation::BalancedCount, PolicyTerm::Ppo), &step);
        prop_assert!(all_close(&balanced.weights.concat(), &count.weights.concat()));
    }

    #[test]
    fn each_side_pulls_as_under_sequence_where_it_is_balanced_whatever_the_rewards(
        step in steps(Rewards::Any, Holes::Some),
    ) {
        let balanced = compute(&with(Aggregation::Balanced, PolicyTerm::Ppo), &step);
        let sequence = compute(&with(Aggregation::Sequence, PolicyTerm::Ppo), &step);
        for (g, group) in step.iter().enumerate() {
            let counted = group.iter().filter(|r| r.trainable() > 0).count() as f64;
            for sign in [1.0, -1.0] {
                let members: Vec<usize> = (0..group.len())
                    .filter(|&i| group[i].trainable() > 0 && balanced.advantages[g][i] * sign > 0.0)
                    .collect();
                let pull = |w: &[f64]| -> f64 {
                    members.iter().map(|&i| w[i] * balanced.advantages[g][i].abs() * group[i].trainable() as f64).sum()
                };
                let side: f64 = members.iter().map(|&i| balanced.advantages[g][i].abs()).sum();
                prop_assert!(close(pull(&balanced.weights[g]), pull(&sequence.weights[g])));
                if !members.is_empty() {
                    prop_assert!(close(pull(&balanced.weights[g]), side / (balanced.counts.groups as f64 * counted)));
                }
            }
        }
    }

    #[test]
    fn equal_lengths_give_token_sequence_and_balanced_the_same_loss_and_gradient(
        step in steps(Rewards::Any, Holes::None).prop_map(with_equal_lengths),
        policy in prop::sample::select(PolicyTerm::ALL),
    ) {
        let token = compute(&with(Aggregation::Token, policy), &step);
        for aggregation in [Aggregation::Sequence, Aggregation::Balanced] {
            let other = compute(&with(aggregation, policy), &step);
            prop_assert!(close(token.loss, other.loss), "{aggregation}: {} and not {}", other.loss, token.loss);
            prop_assert!(all_close(&flat(&token), &flat(&other)), "{aggregation}");
        }
    }

    #[test]
    fn the_loss_before_the_first_update_is_zero_under_sequence_and_balanced(
        step in steps(Rewards::Any, Holes::None).prop_map(on_policy),
        advantage in prop::sample::select(&[Advantage::Grpo, Advantage::GrpoSample, Advantage::Mean, Advantage::Rloo, Advantage::Gdpo][..]),
    ) {
        for aggregation in [Aggregation::Sequence, Aggregation::Balanced] {
            let all = [PolicyTerm::Ppo, PolicyTerm::DualClip, PolicyTerm::Gspo, PolicyTerm::DppoTv, PolicyTerm::DppoKl];
            for policy in all {
                let loss = compute(&Settings { advantage, ..with(aggregation, policy) }, &step).loss;
                prop_assert!(loss.abs() < 1e-12, "{aggregation}, {policy}: {loss:e}");
            }
        }
    }

    #[test]
    fn the_loss_of_a_binary_group_before_the_first_update_couples_sign_and_length_under_token(
        step in steps(Rewards::Binary, Holes::None).prop_map(with_both_sides).prop_map(on_policy),
    ) {
        let terms: Vec<f64> = step.iter().map(|group| {
            let size = group.len() as f64;
            let right = group.iter().filter(|r| r.reward == 1.0).count() as f64;
            let tokens: usize = group.iter().map(Owned::trainable).sum();
            let gap = mean_length(group, 0.0) - mean_length(group, 1.0);
            (right * (size - right)).sqrt() / tokens as f64 * gap / step.len() as f64
        }).collect();
        let expected: f64 = terms.iter().sum();
        // The epsilon is 1e-6 compared with a variance of at least 5/36, and terms of several groups may cancel.
        let tolerance = 1e-5 * terms.iter().map(|term| term.abs()).sum::<f64>() + 1e-12;
        let loss = compute(&with(Aggregation::Token, PolicyTerm::Ppo), &step).loss;
        prop_assert!((loss - expected).abs() <= tolerance, "{loss} and not {expected}");
    }

    #[test]
    fn scaling_every_advantage_scales_the_loss_and_the_gradient(
        step in steps(Rewards::Any, Holes::Some),
        settings in any_settings(),
        factor in 0.01..100.0,
    ) {
        let settings = Settings { advantage: Advantage::Mean, kl_coefficient: 0.0, ..settings };
        let mut scaled = step.clone();
        scaled.iter_mut().flatten().for_each(|r| r.reward *= factor);
        let once = compute(&settings, &step);
        let scaled = compute(&settings, &scaled);
        prop_assert!(close(once.loss * factor, scaled.loss));
        let expected: Vec<f64> = flat(&once).iter().map(|g| g * factor).collect();
        prop_assert!(all_close(&expected, &flat(&scaled)));
    }

    #[test]
    fn any_split_into_micro_batches_gives_the_same_loss_and_gradient(
        step in steps(Rewards::Any, Holes::Some),
        settings in any_settings(),
        size in 1_usize..7,
    ) {
        let whole = compute(&settings, &step);
        // As in a learner: the group's part first, the scalar when the step is complete.
        let mut queue = Vec::new();
        let mut counts = MiniBatchCounts::default();
        for group in &step {
            let rewards: Vec<f64> = group.iter().map(|r| r.reward).collect();
            let valid: Vec<bool> = group.iter().map(|r| r.valid).collect();
            let trainable: Vec<usize> = group.iter().map(Owned::trainable).collect();
            let mut a = vec![0.0; group.len()];
            let mut w = vec![0.0; group.len()];
            let mut regularizer = w.clone();
            advantages(settings.advantage, &rewards, &valid, &mut a).unwrap();
            counts.add(group_weights(settings.aggregation, &a, &trainable, settings.constants(), &mut w).unwrap());
            regularizer_weights(&trainable, &mut regularizer).unwrap();
            queue.extend(group.iter().zip(a).zip(w).zip(regularizer).map(|(((r, a), w), k)| (r, a, w, k)));
        }
        let mut policy_loss = 0.0;
        let mut kl_loss = 0.0;
        let mut gradient = Vec::new();
        for micro_batch in queue.chunks(size) {
            let mut policy_sum = 0.0;
            let mut kl_sum = 0.0;
            for (response, a, w, k) in micro_batch {
                let mut policy = vec![0.0; response.mask.len()];
                let mut kl = policy.clone();
                if response.valid {
                    let tokens = response.tokens();
                    policy_sum += response_loss(&settings, *a, *w, &tokens, &mut policy).unwrap().loss;
                    let reference = &response.reference_logp;
                    kl_sum += response_kl(&settings, *k, &response.mask, &response.logp, reference, &mut kl).unwrap().loss;
                }
                let scale = counts.policy_scale(settings.aggregation, settings.advantage);
                let kl_scale = counts.normalizer(Aggregation::Token);
                gradient.extend(policy.iter().zip(&kl).map(|(p, k)| p * scale + k * kl_scale));
            }
            policy_loss += policy_sum;
            kl_loss += kl_sum;
        }
        let scale = counts.policy_scale(settings.aggregation, settings.advantage);
        let loss = policy_loss * scale + kl_loss * counts.normalizer(Aggregation::Token);
        prop_assert!(close(loss, whole.loss), "{loss} and not {}", whole.loss);
        prop_assert!(all_close(&gradient, &flat(&whole)));
    }

    #[test]
    fn the_order_of_groups_and_of_responses_changes_nothing(
        step in steps(Rewards::Any, Holes::Some),
        settings in any_settings(),
        turn in 0_usize..7,
    ) {
        let mut turned = step.clone();
        let groups = step.len();
        let mut places = Vec::new();
        turned.rotate_left(turn % groups);
        for (g, group) in turned.iter_mut().enumerate() {
            let size = group.len();
            group.rotate_left(turn % size);
            places.push((0..size).map(|i| ((g + turn) % groups, (i + turn) % size)).collect::<Vec<_>>());
        }
        let straight = compute(&settings, &step);
        let turned = compute(&settings, &turned);
        prop_assert!(close(straight.loss, turned.loss));
        for (gradients, places) in turned.gradients.iter().zip(&places) {
            for (gradient, &(g, i)) in gradients.iter().zip(places) {
                prop_assert!(all_close(gradient, &straight.gradients[g][i]));
            }
        }
    }

    #[test]
    fn padding_changes_nothing(
        step in steps(Rewards::Any, Holes::Some),
        settings in any_settings(),
        left in 0_usize..80,
        right in 0_usize..80,
    ) {
        let pad = |x: &[f64]| [&vec![f64::NAN; left][..], x, &vec![1e300; right]].concat();
        let mut padded = step.clone();
        for r in padded.iter_mut().flatten() {
            r.mask = [&vec![false; left][..], &r.mask, &vec![false; right]].concat();
            for logp in [&mut r.logp, &mut r.old_logp, &mut r.rollout_logp, &mut r.reference_logp] {
                *logp = pad(logp);
            }
        }
        let packed = compute(&settings, &step);
        let padded = compute(&settings, &padded);
        prop_assert!(close(packed.loss, padded.loss));
        for (packed, padded) in packed.gradients.iter().flatten().zip(padded.gradients.iter().flatten()) {
            prop_assert!(all_close(packed, &padded[left..padded.len() - right]));
            prop_assert!(padded[..left].iter().chain(&padded[padded.len() - right..]).all(|g| *g == 0.0));
        }
    }

    #[test]
    fn nan_in_a_masked_position_reaches_nothing(
        step in steps(Rewards::Any, Holes::Some),
        settings in any_settings(),
        garbage in prop::sample::select(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308][..]),
    ) {
        let mut dirty = step.clone();
        for r in dirty.iter_mut().flatten() {
            for (t, _) in r.mask.iter().enumerate().filter(|(_, m)| !**m) {
                r.logp[t] = garbage;
                r.old_logp[t] = -garbage;
                r.rollout_logp[t] = garbage;
                r.reference_logp[t] = garbage;
            }
        }
        prop_assert_eq!(compute(&settings, &step), compute(&settings, &dirty));
    }

    #[test]
    fn regularizer_weights_are_those_of_token_whatever_the_aggregation_is(
        step in steps(Rewards::Any, Holes::Some),
        settings in any_settings(),
    ) {
        // Policy weights under gdpo have a factor of the mini-batch besides.
        let aggregation = Aggregation::Token;
        let advantage = Advantage::Mean;
        // Only sides has these.
        let (length_exponent, side_ratio) = (None, None);
        let plain = Settings { aggregation, advantage, length_exponent, side_ratio, ..settings.clone() };
        let token = compute(&plain, &step);
        prop_assert_eq!(compute(&settings, &step).regularizer_weights, token.weights);
    }

    #[test]
    fn statistics_of_parts_add_up_to_those_of_the_whole(
        step in steps(Rewards::Any, Holes::Some),
        settings in any_settings(),
    ) {
        let whole = compute(&settings, &step);
        let mut sum = PolicyStats::default();
        for (g, group) in step.iter().enumerate() {
            for (i, response) in group.iter().enumerate().filter(|(_, r)| r.valid) {
                let mut grad = vec![0.0; response.mask.len()];
                let a = whole.advantages[g][i];
                let w = whole.weights[g][i];
                sum.add(&response_loss(&settings, a, w, &response.tokens(), &mut grad).unwrap());
            }
        }
        prop_assert_eq!(sum, whole.policy);
    }
}

#[test]
fn the_rules_differ_where_lengths_do() {
    // Lengths 2, 4, 6 with advantages 1.5, 0.5, -2 before the first update; worked out by hand.
    let a = [1.5, 0.5, -2.0];
    let t = [2, 4, 6];
    let constants = Constants { max_tokens: 12, vl_norm_alpha: 1.0, sides: None };
    let loss = |aggregation| {
        let mut w = [0.0; 3];
        let counts = group_weights(aggregation, &a, &t, constants, &mut w).unwrap();
        let scale = MiniBatchCounts::from_iter([counts]).normalizer(aggregation);
        -(0..3).map(|i| w[i] * scale * a[i] * t[i] as f64).sum::<f64>()
    };
    assert!(close(loss(Aggregation::Token), 7.0 / 12.0));
    assert!(close(loss(Aggregation::BatchToken), 7.0 / 12.0));
    assert!(close(loss(Aggregation::Sequence), 0.0));
    assert!(close(loss(Aggregation::SequenceSum), 7.0 / 36.0));
    assert!(close(loss(Aggregation::Balanced), 0.0));
    assert!(close(loss(Aggregation::BalancedCount), 1.0 / 9.0));
    assert!(close(loss(Aggregation::VlNorm), 0.0));
    assert!(close(loss(Aggregation::Luspo), 7.0 / 3.0));
}

#[test]
fn vl_norm_is_what_its_authors_program_computes() {
    // Two groups of a step. Their program multiplies each advantage by T^-alpha over its mean over the step, and takes
    // the mean of the masked terms over a rectangle of all responses by the longest answer.
    let alpha = 0.75;
    let longest = 10;
    let groups = [([0.5, -0.5, 0.0], [1, 4, 9]), ([1.0, -2.0, 1.0], [10, 2, 2])];
    let all: Vec<(f64, usize)> = groups.iter().flat_map(|(a, t)| a.iter().copied().zip(t.iter().copied())).collect();
    let mean_length = all.iter().map(|(_, t)| *t as f64).sum::<f64>() / 6.0;
    let reciprocal = |t: usize| 1.0 / (t as f64 / mean_length).powf(alpha);
    let mean_reciprocal = all.iter().map(|(_, t)| reciprocal(*t)).sum::<f64>() / 6.0;
    let rectangle = (6 * longest) as f64;
    let theirs = all.iter().map(|(a, t)| a * reciprocal(*t) / mean_reciprocal * *t as f64).sum::<f64>() / rectangle;

    let constants = Constants { max_tokens: longest, vl_norm_alpha: alpha, sides: None };
    let mut counts = MiniBatchCounts::default();
    let mut sum = 0.0;
    for (a, t) in groups {
        let mut w = [0.0; 3];
        counts.add(group_weights(Aggregation::VlNorm, &a, &t, constants, &mut w).unwrap());
        sum += (0..3).map(|i| w[i] * a[i] * t[i] as f64).sum::<f64>();
    }
    assert!(close(sum * counts.normalizer(Aggregation::VlNorm), theirs), "{theirs}");
}

#[test]
fn the_weights_of_vl_norm_are_those_worked_out_by_hand() {
    // Lengths 1, 4 and 16 with alpha 1/2: powers 1, 1/2 and 1/4, whose sum is 7/4.
    let constants = Constants { max_tokens: 8, vl_norm_alpha: 0.5, sides: None };
    let mut w = [0.0; 4];
    let counts = group_weights(Aggregation::VlNorm, &[1.0, -1.0, 0.0, 0.0], &[1, 4, 16, 0], constants, &mut w).unwrap();
    let scale = MiniBatchCounts::from_iter([counts]).normalizer(Aggregation::VlNorm);
    for (w, known) in w.into_iter().zip([4.0 / 56.0, 2.0 / 56.0, 1.0 / 56.0, 0.0]) {
        assert!(close(w * scale, known), "{} and not {known}", w * scale);
    }
}
