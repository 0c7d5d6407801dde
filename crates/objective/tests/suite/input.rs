//! Invalid input is refused with the field, its location, its value and what is allowed, and never panics.

use evenkeel_objective::{
    Advantage, Aggregation, Correction, Response, Settings, advantages, batch_loss, group_weights, response_loss,
    validate_batch, validate_logp,
};
use proptest::prelude::*;

use crate::support::{Holes, Owned, Rewards, Step, any_settings, constants, steps, views};

fn step() -> Step {
    vec![
        vec![Owned::on_policy(1.0, 3), Owned::on_policy(0.0, 2)],
        vec![Owned::on_policy(1.0, 1), Owned::on_policy(0.0, 4)],
    ]
}

/// What the validation says of a step after a change.
fn refusal(change: impl FnOnce(&mut Step)) -> String {
    let mut step = step();
    change(&mut step);
    validate_batch(&Settings::default(), &views(&step)).unwrap_err().to_string()
}

#[test]
fn a_sound_step_is_accepted() {
    assert!(validate_batch(&Settings::default(), &views(&step())).is_ok());
}

#[test]
fn a_group_of_one_is_refused_with_its_group() {
    let error = refusal(|step| {
        step[1].pop();
    });
    assert_eq!(error, "group 1: group_size is 1, allowed: at least 2 with advantage = grpo");
}

#[test]
fn an_invalid_response_does_not_make_a_group_of_one() {
    let mut step = step();
    step[1][0].valid = false;
    assert!(validate_batch(&Settings::default(), &views(&step)).is_ok());
}

#[test]
fn an_empty_response_is_refused() {
    let error = refusal(|step| step[1][1] = Owned::on_policy(0.0, 0));
    assert_eq!(error, "group 1, response 1: tokens is empty, allowed: at least one token");
}

#[test]
fn a_reward_that_is_not_finite_is_refused() {
    for reward in [f64::NAN, f64::INFINITY, -1e19] {
        let error = refusal(|step| step[0][1].reward = reward);
        let expected =
            format!("group 0, response 1: reward is {reward}, allowed: a finite number of at most 1e18 in magnitude");
        assert_eq!(error, expected);
    }
}

#[test]
fn a_log_probability_that_cannot_be_one_is_refused_with_its_token() {
    let error = refusal(|step| step[0][0].logp[2] = 0.01);
    assert_eq!(
        error,
        "group 0, response 0, token 2: logp is 0.01, allowed: a finite log-probability, at most 0 (tolerance 1e-4)"
    );
    let error = refusal(|step| step[1][1].old_logp[3] = f64::NAN);
    assert!(error.starts_with("group 1, response 1, token 3: old_logp is NaN"), "{error}");
    let error = refusal(|step| step[1][1].rollout_logp[0] = f64::NEG_INFINITY);
    assert!(error.starts_with("group 1, response 1, token 0: rollout_logp is -inf"), "{error}");
    let error = refusal(|step| step[1][1].reference_logp[0] = f64::INFINITY);
    assert!(error.starts_with("group 1, response 1, token 0: reference_logp is inf"), "{error}");
}

#[test]
fn a_log_probability_that_rounding_lifted_above_zero_is_accepted() {
    assert!(validate_logp("logp", &[true], &[5e-5_f32]).is_ok());
}

#[test]
fn a_masked_log_probability_may_be_anything() {
    assert!(validate_logp("logp", &[false, true], &[f32::NAN, -1.0]).is_ok());
}

#[test]
fn slices_of_different_lengths_are_refused() {
    let error = refusal(|step| step[0][0].old_logp.truncate(2));
    assert_eq!(error, "group 0, response 0: length of old_logp is 2, allowed: 3, the length of mask");
    let mut long_grad = [0.0; 4];
    let response = Owned::on_policy(1.0, 3);
    let error = response_loss(&Settings::default(), 1.0, 1.0, &response.tokens(), &mut long_grad).unwrap_err();
    assert_eq!(error.to_string(), "length of grad is 4, allowed: 3, the length of mask");
    let error = advantages(Advantage::Mean, &[1.0], &[], &mut [0.0]).unwrap_err();
    assert_eq!(error.to_string(), "length of valid is 0, allowed: 1, the length of rewards");
    assert!(group_weights(Aggregation::Token, &[1.0], &[1, 2], constants(0), &mut [0.0]).is_err());
}

#[test]
fn a_correction_without_the_engines_log_probabilities_is_refused() {
    let settings = Settings { correction: Correction::TokenMask, ..Settings::default() };
    let owned = Owned::on_policy(1.0, 2);
    let mut view = owned.view();
    view.tokens.rollout_logp = None;
    let groups: Vec<Vec<Response<'_, f64>>> = vec![vec![view, owned.view()]];
    let expected = "group 0, response 0: rollout_logp is absent with correction = token-mask, \
                    allowed: one log-probability for each token";
    assert_eq!(validate_batch(&settings, &groups).unwrap_err().to_string(), expected);
    assert_eq!(batch_loss(&settings, &groups).unwrap_err().to_string(), expected);
}

#[test]
fn a_kl_term_without_a_reference_is_refused() {
    let settings = Settings { kl_coefficient: 0.1, ..Settings::default() };
    let owned = Owned::on_policy(1.0, 2);
    let mut view = owned.view();
    view.reference_logp = None;
    let error = batch_loss(&settings, &[vec![owned.view(), view]]).unwrap_err().to_string();
    assert!(error.starts_with("group 0, response 1: reference_logp is absent with kl_coefficient = 0.1"), "{error}");
}

#[test]
fn rules_that_divide_by_a_length_are_refused_without_one_by_the_weights_too() {
    for aggregation in [Aggregation::SequenceSum, Aggregation::VlNorm] {
        let error = group_weights(aggregation, &[1.0], &[1], constants(0), &mut [0.0]).unwrap_err();
        assert_eq!(error.to_string(), format!("max_tokens is 0, allowed: at least 1 with {aggregation}"));
    }
}

#[test]
fn an_advantage_that_is_not_finite_is_refused() {
    let error =
        group_weights(Aggregation::Balanced, &[1.0, f64::NAN], &[1, 1], constants(0), &mut [0.0; 2]).unwrap_err();
    assert_eq!(error.to_string(), "response 1: advantage is NaN, allowed: a finite number up to 1e30 in magnitude");
}

#[test]
fn an_empty_step_and_an_empty_group_have_a_loss_of_zero() {
    let none: Vec<Vec<Response<'_, f32>>> = vec![];
    assert_eq!(batch_loss(&Settings::default(), &none).unwrap().loss, 0.0);
    assert_eq!(batch_loss::<f32>(&Settings::default(), &[vec![]]).unwrap().loss, 0.0);
}

proptest! {
    #[test]
    fn settings_that_were_not_validated_panic_nowhere(
        mut step in steps(Rewards::Any, Holes::Some),
        settings in any_settings(),
        bad in prop::collection::vec(prop_oneof![Just(f64::NAN), Just(f64::INFINITY), -9.0..9.0, Just(-1e300)], 6),
    ) {
        let settings = Settings {
            clip_low: bad[0],
            clip_high: bad[1],
            dual_clip: bad[2],
            gmpo_clip: bad[3],
            correction_low: bad[4],
            correction_high: bad[5],
            ..settings
        };
        let _ = settings.formula();
        let response = step.remove(0).remove(0);
        let mut grad = vec![0.0; response.mask.len()];
        prop_assert!(response_loss(&settings, bad[0], bad[1], &response.tokens(), &mut grad).is_ok());
    }
}
