//! Closed-form gradients against differences of the loss. Terms with a stop-gradient are not functions whose difference
//! is their gradient; for them the coefficient in front of the log-probability is compared.

use evenkeel_objective::{Correction, PolicyStats, PolicyTerm, Settings, response_loss};
use proptest::prelude::*;

use crate::support::{Holes, Owned, Rewards, close, steps};

const STEP: f64 = 1e-6;

fn loss(settings: &Settings, advantage: f64, response: &Owned) -> (PolicyStats, Vec<f64>) {
    let mut grad = vec![f64::NAN; response.mask.len()];
    let stats = response_loss(settings, advantage, 0.01, &response.tokens(), &mut grad).unwrap();
    (stats, grad)
}

fn one_response() -> impl Strategy<Value = Owned> {
    steps(Rewards::Any, Holes::Some).prop_map(|mut step| step.remove(0).remove(0))
}

fn policy(policy: PolicyTerm, correction: Correction) -> Settings {
    Settings { policy, correction, ..Settings::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_gradient_is_the_difference_quotient_of_the_loss(
        response in one_response(),
        advantage in -2.0..2.0,
        p in prop::sample::select(&[PolicyTerm::Ppo, PolicyTerm::DualClip, PolicyTerm::Gmpo, PolicyTerm::Sapo][..]),
        c in prop::sample::select(Correction::ALL),
    ) {
        let settings = policy(p, c);
        let (_, grad) = loss(&settings, advantage, &response);
        for (t, &slope) in grad.iter().enumerate() {
            let mut moved = response.clone();
            moved.logp[t] += STEP;
            let above = loss(&settings, advantage, &moved).0.loss;
            moved.logp[t] -= 2.0 * STEP;
            let below = loss(&settings, advantage, &moved).0.loss;
            let quotient = (above - below) / (2.0 * STEP);
            prop_assert!((quotient - slope).abs() < 1e-7, "token {t}: {slope} and not {quotient}");
        }
    }

    #[test]
    fn gspo_moves_each_token_with_the_ratio_of_the_response(response in one_response(), advantage in 0.1..2.0) {
        let settings = Settings { clip_high: 10.0, ..policy(PolicyTerm::Gspo, Correction::None) };
        let (stats, grad) = loss(&settings, advantage, &response);
        let live = |t: &usize| response.mask[*t];
        let sum: f64 = (0..grad.len()).filter(live).map(|t| response.logp[t] - response.old_logp[t]).sum();
        let ratio = (sum / stats.tokens.max(1) as f64).exp();
        for t in (0..grad.len()).filter(live) {
            prop_assert!(close(grad[t], -0.01 * advantage * ratio));
        }
    }

    #[test]
    fn cispo_is_linear_in_logp_with_the_clipped_ratio_as_its_slope(response in one_response(), advantage in -2.0..2.0) {
        let settings = Settings { clip_low: 1.0, ..policy(PolicyTerm::Cispo, Correction::None) };
        let (stats, grad) = loss(&settings, advantage, &response);
        let mut expected = 0.0;
        for t in (0..grad.len()).filter(|t| response.mask[*t]) {
            let ratio = (response.logp[t] - response.old_logp[t]).exp().min(1.28);
            prop_assert!(close(grad[t], -0.01 * advantage * ratio));
            expected -= 0.01 * advantage * ratio * response.logp[t];
        }
        prop_assert!(close(stats.loss, expected));
    }

    #[test]
    fn aspo_turns_the_ratio_of_positive_tokens_over(response in one_response(), advantage in 0.1..2.0) {
        let (_, grad) = loss(&policy(PolicyTerm::Aspo, Correction::None), advantage, &response);
        for t in (0..grad.len()).filter(|t| response.mask[*t]) {
            let ratio = (response.logp[t] - response.old_logp[t]).exp();
            let expected = if ratio < 1.28 { (1.0 / ratio).min(3.0) } else { 0.0 };
            prop_assert!(close(grad[t], -0.01 * advantage * expected));
        }
    }

    #[test]
    fn a_sequence_correction_multiplies_the_whole_response(response in one_response(), advantage in 0.1..2.0) {
        let plain = policy(PolicyTerm::Ppo, Correction::None);
        let corrected = Settings { correction_high: 1e6, ..policy(PolicyTerm::Ppo, Correction::SequenceTruncate) };
        let gap: f64 = (0..response.mask.len())
            .filter(|t| response.mask[*t])
            .map(|t| response.old_logp[t] - response.rollout_logp[t])
            .sum();
        let (plain, grad) = loss(&plain, advantage, &response);
        let (stats, scaled) = loss(&corrected, advantage, &response);
        prop_assert!(close(stats.loss, plain.loss * gap.exp().min(1e6)));
        for (a, b) in grad.iter().zip(&scaled) {
            prop_assert!(close(a * gap.exp().min(1e6), *b));
        }
    }

    #[test]
    fn nothing_pulls_where_advantage_or_weight_is_zero(
        response in one_response(),
        p in prop::sample::select(PolicyTerm::ALL),
        c in prop::sample::select(Correction::ALL),
    ) {
        for (advantage, weight) in [(0.0, 1.0), (1.0, 0.0)] {
            let mut grad = vec![f64::NAN; response.mask.len()];
            let stats = response_loss(&policy(p, c), advantage, weight, &response.tokens(), &mut grad).unwrap();
            prop_assert_eq!(stats.loss, 0.0);
            prop_assert_eq!(stats.clipped + stats.clipped_lower, 0);
            prop_assert_eq!(stats.tokens, response.mask.iter().filter(|m| **m).count());
            prop_assert!(grad.iter().all(|g| *g == 0.0));
        }
    }
}

fn ratios(ratios: &[f64], advantage: f64, settings: &Settings) -> PolicyStats {
    let mut response = Owned::on_policy(0.0, ratios.len());
    for (logp, ratio) in response.logp.iter_mut().zip(ratios) {
        *logp += ratio.ln();
    }
    loss(settings, advantage, &response).0
}

#[test]
fn clipped_tokens_are_those_whose_clipped_term_is_the_smaller_one() {
    let settings = policy(PolicyTerm::DualClip, Correction::None);
    let clipped = |advantage| {
        let stats = ratios(&[0.5, 0.79, 1.0, 1.27, 1.3, 4.0], advantage, &settings);
        (stats.clipped, stats.clipped_lower)
    };
    assert_eq!(clipped(1.0), (2, 0));
    assert_eq!(clipped(-1.0), (2, 1));
}

#[test]
fn the_statistics_of_ppo_kl_and_correction_are_sums_over_trainable_tokens() {
    let mut response = Owned::on_policy(0.0, 4);
    response.logp = vec![-1.5, -1.0, -0.5, -9.0];
    response.rollout_logp = vec![-1.0, -2.0, -1.0 + 2_f64.ln(), -1.0];
    response.mask[3] = false;
    let settings = policy(PolicyTerm::Ppo, Correction::TokenTruncate);
    let (stats, _) = loss(&settings, 1.0, &response);
    assert_eq!(stats.tokens, 3);
    assert!(close(stats.ppo_kl().unwrap(), 0.0));
    assert!(close(stats.correction_mean().unwrap(), (1.0 + 2.0 + 0.5) / 3.0));
    assert_eq!(stats.correction_bounded, 1);
    assert!(close(stats.clip_fraction().unwrap(), 1.0 / 3.0));
}
