//! Extreme log-probabilities never lead to NaN or infinities.

use evenkeel_objective::{Correction, KlEstimator, PolicyTerm, Real, Settings, response_kl, response_loss};
use proptest::prelude::*;

use crate::support::Owned;

fn extreme() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(-1e-30), -30.0..0.0, -1000.0..0.0, -1e6..0.0, Just(-1e30), Just(-3e38)]
}

fn response() -> impl Strategy<Value = Owned> {
    prop::collection::vec((extreme(), extreme(), extreme(), extreme(), any::<bool>()), 1..70).prop_map(|tokens| Owned {
        reward: 0.0,
        valid: true,
        mask: tokens.iter().map(|t| t.4).collect(),
        logp: tokens.iter().map(|t| t.0).collect(),
        old_logp: tokens.iter().map(|t| t.1).collect(),
        rollout_logp: tokens.iter().map(|t| t.2).collect(),
        reference_logp: tokens.iter().map(|t| t.3).collect(),
    })
}

fn narrowed(r: &Owned) -> Owned<f32> {
    let narrow = |values: &[f64]| values.iter().map(|&x| x as f32).collect::<Vec<f32>>();
    Owned {
        reward: r.reward,
        valid: r.valid,
        mask: r.mask.clone(),
        logp: narrow(&r.logp),
        old_logp: narrow(&r.old_logp),
        rollout_logp: narrow(&r.rollout_logp),
        reference_logp: narrow(&r.reference_logp),
    }
}

fn is_finite<T: Real>(settings: &Settings, advantage: f64, response: &Owned<T>) -> bool {
    let mut grad = vec![T::default(); response.mask.len()];
    let stats = response_loss(settings, advantage, 0.1, &response.tokens(), &mut grad).unwrap();
    stats.loss.is_finite()
        && stats.negative_log_ratio.is_finite()
        && stats.correction_sum.is_finite()
        && grad.iter().all(|g| g.to_f64().is_finite())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn loss_and_gradient_stay_finite(
        response in response(),
        advantage in prop_oneof![-3.0..3.0, Just(0.0)],
        policy in prop::sample::select(PolicyTerm::ALL),
        correction in prop::sample::select(Correction::ALL),
    ) {
        let settings = Settings { policy, correction, ..Settings::default() };
        prop_assert!(is_finite(&settings, advantage, &response));
        prop_assert!(is_finite(&settings, advantage, &narrowed(&response)));
    }

    #[test]
    fn k3_stays_finite(response in response()) {
        let kl_estimator = KlEstimator::K3;
        let settings = Settings { kl_estimator, kl_coefficient: 1.0, ..Settings::default() };
        let mut grad = vec![0.0; response.mask.len()];
        let mask = &response.mask;
        let logp = &response.logp;
        let reference = &response.reference_logp;
        let stats = response_kl(&settings, 0.1, mask, logp, reference, &mut grad).unwrap();
        prop_assert!(stats.loss.is_finite());
        prop_assert!(grad.iter().all(|g| g.is_finite()));
    }
}

#[test]
fn a_nan_at_a_trainable_token_is_not_hidden() {
    for &policy in PolicyTerm::ALL {
        let mut response = Owned::on_policy(0.0, 3);
        response.logp[1] = f64::NAN;
        let mut grad = [0.0; 3];
        let settings = Settings { policy, ..Settings::default() };
        let stats = response_loss(&settings, 1.0, 1.0, &response.tokens(), &mut grad).unwrap();
        assert!(stats.loss.is_nan(), "{policy}");
    }
}
