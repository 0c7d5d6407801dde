//! KL terms and the entropy slope.

use evenkeel_objective::{KlEstimator, Settings, response_kl};
use proptest::prelude::*;

use crate::support::{Owned, close};

fn with(kl_estimator: KlEstimator) -> Settings {
    Settings { kl_estimator, kl_coefficient: 0.5, ..Settings::default() }
}

#[test]
fn values_are_those_of_the_estimators_of_verl() {
    let estimate = |name: &str, d: f64| name.parse::<KlEstimator>().unwrap().value_and_slope(d);
    let d: f64 = 0.3;
    assert_eq!(estimate("kl", d), (d, 1.0));
    assert_eq!(estimate("abs", -d), (d, -1.0));
    assert_eq!(estimate("mse", d), (d * d / 2.0, d));
    let (value, slope) = estimate("low_var_kl", d);
    assert!(close(value, (-d).exp() - 1.0 + d) && close(slope, 1.0 - (-d).exp()));
}

#[test]
fn a_plus_keeps_the_value_and_takes_the_gradient_of_k2() {
    let estimate = |estimator: KlEstimator| estimator.value_and_slope(0.3);
    assert_eq!(estimate(KlEstimator::K1Plus), (estimate(KlEstimator::K1).0, estimate(KlEstimator::K2).1));
    assert_eq!(estimate(KlEstimator::K3Plus), (estimate(KlEstimator::K3).0, estimate(KlEstimator::K2).1));
    assert_eq!("k3+".parse::<KlEstimator>().unwrap(), KlEstimator::K3Plus);
}

#[test]
fn k3_is_at_most_ten_and_does_not_move_there() {
    assert_eq!(KlEstimator::K3.value_and_slope(-5.0), (10.0, 0.0));
    assert_eq!(KlEstimator::K3.value_and_slope(-1e30), (10.0, 0.0));
    assert_eq!(KlEstimator::K3.value_and_slope(1e30), (10.0, 0.0));
}

#[test]
fn the_gradient_is_added_to_the_existing_one_and_masked_tokens_stay() {
    let mut response = Owned::on_policy(0.0, 3);
    response.reference_logp = vec![-1.2, f64::NAN, -0.9];
    response.mask[1] = false;
    let mut grad = [1.0, 2.0, 3.0];
    let mask = &response.mask;
    let logp = &response.logp;
    let reference = &response.reference_logp;
    let stats = response_kl(&with(KlEstimator::K2), 0.25, mask, logp, reference, &mut grad).unwrap();
    assert!(close(grad[0], 1.0 + 0.5 * 0.25 * 0.2));
    assert_eq!(grad[1], 2.0);
    assert!(close(grad[2], 3.0 - 0.5 * 0.25 * 0.1));
    assert!(close(stats.loss, 0.5 * 0.25 * (0.02 + 0.005)));
    assert!(close(stats.mean().unwrap(), 0.0125));
}

#[test]
fn without_a_coefficient_the_kl_is_measured_and_the_gradient_left_alone() {
    let mut response = Owned::on_policy(0.0, 2);
    response.reference_logp = vec![-1.5, -1.5];
    let mut grad = [1.0, 2.0];
    let mask = &response.mask;
    let logp = &response.logp;
    let reference = &response.reference_logp;
    let stats = response_kl(&Settings::default(), 1.0, mask, logp, reference, &mut grad).unwrap();
    assert_eq!((stats.loss, grad), (0.0, [1.0, 2.0]));
    assert!(stats.mean().unwrap() > 0.0);
}

#[test]
fn entropy_is_rewarded_by_its_coefficient() {
    let settings = Settings { entropy_coefficient: 0.01, ..Settings::default() };
    assert!(close(settings.entropy_slope(0.25), -0.0025));
    assert_eq!(Settings::default().entropy_slope(0.25), 0.0);
}

proptest! {
    #[test]
    fn the_slope_is_the_difference_quotient_of_the_value(
        d in prop_oneof![-2.0..-0.01, 0.01..2.0],
        estimator in prop::sample::select(&[KlEstimator::K1, KlEstimator::Abs, KlEstimator::K2, KlEstimator::K3][..]),
    ) {
        let value = |d: f64| estimator.value_and_slope(d).0;
        let quotient = (value(d + 1e-6) - value(d - 1e-6)) / 2e-6;
        prop_assert!((quotient - estimator.value_and_slope(d).1).abs() < 1e-7);
    }
}
