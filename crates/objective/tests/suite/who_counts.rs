//! What counts: invalid responses, responses and groups without a trainable token, groups without spread.

use evenkeel_objective::{Advantage, Aggregation, Settings, advantages};
use proptest::prelude::*;

use crate::support::{Holes, Owned, Rewards, Step, all_close, any_settings, close, compute, steps};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn an_invalid_response_leaves_its_group_as_if_it_had_not_been_sampled(
        step in steps(Rewards::Any, Holes::Some),
        settings in any_settings(),
    ) {
        let without: Step =
            step.iter().map(|group| group.iter().filter(|r| r.valid).cloned().collect()).collect();
        let with = compute(&settings, &step);
        let without = compute(&settings, &without);
        prop_assert!(close(with.loss, without.loss));
        prop_assert_eq!(with.policy.tokens, without.policy.tokens);
        for (g, group) in step.iter().enumerate() {
            let valid = with.gradients[g].iter().zip(group).filter(|(_, r)| r.valid).map(|(gradient, _)| gradient);
            for (kept, alone) in valid.zip(&without.gradients[g]) {
                prop_assert!(all_close(kept, alone));
            }
            let invalid = with.gradients[g].iter().zip(group).filter(|(_, r)| !r.valid);
            prop_assert!(invalid.flat_map(|(gradient, _)| gradient).all(|g| *g == 0.0));
        }
    }

    #[test]
    fn an_invalid_response_may_have_any_reward(step in steps(Rewards::Any, Holes::Some), settings in any_settings()) {
        let mut dirty = step.clone();
        dirty.iter_mut().flatten().filter(|r| !r.valid).for_each(|r| r.reward = f64::NAN);
        prop_assert_eq!(compute(&settings, &step), compute(&settings, &dirty));
    }

    #[test]
    fn a_response_without_a_trainable_token_keeps_its_reward_in_the_mean(reward in -1.0..2.0, length in 1_usize..9) {
        let mut silent = Owned::on_policy(reward, length);
        silent.mask.fill(false);
        let step = vec![vec![silent, Owned::on_policy(0.5, 3)]];
        let batch = compute(&Settings { advantage: Advantage::Mean, ..Settings::default() }, &step);
        prop_assert!(close(batch.advantages[0][1], (0.5 - reward) / 2.0));
        prop_assert_eq!(batch.weights[0][0], 0.0);
    }

    #[test]
    fn a_group_without_a_trainable_token_is_not_in_p(
        step in steps(Rewards::Any, Holes::None),
        settings in any_settings(),
    ) {
        let mut silent = step[0].clone();
        silent.iter_mut().for_each(|r| r.mask.fill(false));
        let mut longer = step.clone();
        longer.push(silent);
        let alone = compute(&settings, &step);
        let beside = compute(&settings, &longer);
        prop_assert_eq!(alone.loss, beside.loss);
        prop_assert_eq!(alone.counts, beside.counts);
    }

    #[test]
    fn a_group_of_equal_rewards_pulls_nothing_and_is_in_p(
        step in steps(Rewards::Any, Holes::None),
        settings in any_settings(),
        reward in -1.0..2.0,
    ) {
        let settings = Settings { kl_coefficient: 0.0, ..settings };
        let mut level = step[0].clone();
        level.iter_mut().for_each(|r| r.reward = reward);
        let mut longer = step.clone();
        longer.push(level);
        let alone = compute(&settings, &step);
        let beside = compute(&settings, &longer);
        prop_assert!(beside.advantages[step.len()].iter().all(|a| *a == 0.0));
        prop_assert!(beside.gradients[step.len()].iter().flatten().all(|g| *g == 0.0));
        prop_assert_eq!(beside.counts.groups, alone.counts.groups + 1);
        // batch-token, vl-norm and gdpo divide by a sum over responses, not by P.
        let by_responses = matches!(settings.aggregation, Aggregation::BatchToken | Aggregation::VlNorm);
        if !by_responses && settings.advantage != Advantage::Gdpo {
            let p = step.len() as f64;
            prop_assert!(close(beside.loss * (p + 1.0), alone.loss * p));
        }
    }

    #[test]
    fn rounding_of_the_mean_gives_no_response_a_side(middle in -1.0..2.0, distance in 0.01..1.0) {
        let rewards = [middle - distance, middle, middle + distance];
        let mut a = [f64::NAN; 3];
        advantages(Advantage::Grpo, &rewards, &[true; 3], &mut a).unwrap();
        prop_assert_eq!(a[1], 0.0);
    }

    #[test]
    fn advantages_of_a_group_sum_to_zero(step in steps(Rewards::Any, Holes::Some), settings in any_settings()) {
        for (group, a) in step.iter().zip(compute(&settings, &step).advantages) {
            if group.iter().filter(|r| r.valid).count() > 1 {
                prop_assert!(a.iter().sum::<f64>().abs() < 1e-12 * (1.0 + a.iter().fold(0.0_f64, |m, a| m.max(a.abs()))));
            }
        }
    }
}

#[test]
fn grpo_gives_a_lone_response_nothing_and_grpo_sample_its_reward() {
    let mut a = [f64::NAN; 2];
    let mut lone = |mode| {
        advantages(mode, &[0.7, f64::NAN], &[true, false], &mut a).unwrap();
        a
    };
    assert_eq!(lone(Advantage::Grpo), [0.0, 0.0]);
    assert_eq!(lone(Advantage::GrpoSample), [0.7 / (1.0 + 1e-6), 0.0]);
    assert_eq!(lone(Advantage::Mean), [0.0, 0.0]);
    assert_eq!(lone(Advantage::Rloo), [0.0, 0.0]);
}
