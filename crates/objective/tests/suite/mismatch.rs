//! Statistics by lag: what a correction does to the tokens of each version.

use evenkeel_objective::{Correction, LagRun, Mismatch, MismatchByLag, ResponseTokens, Settings, response_loss};
use proptest::prelude::*;

use crate::support::{Holes, Rewards, steps};

/// Four tokens with ratios 1, 2, 1/4 and, masked, one that must not count.
const OLD: [f64; 4] = [-1.0, -1.0, f64::NAN, -2.0];
const LN2: f64 = std::f64::consts::LN_2;
const ROLLOUT: [f64; 4] = [-1.0, -1.0 - LN2, 7.0, -2.0 + 2.0 * LN2];
const MASK: [bool; 4] = [true, true, false, true];

fn tokens() -> ResponseTokens<'static, f64> {
    ResponseTokens { mask: &MASK, logp: &OLD, old_logp: &OLD, rollout_logp: Some(&ROLLOUT) }
}

fn runs(runs: &[(u32, usize)]) -> Vec<LagRun> {
    runs.iter().map(|&(lag, tokens)| LagRun { lag, tokens }).collect()
}

fn by_lag(correction: Correction, lags: &[(u32, usize)]) -> Vec<(u32, Mismatch)> {
    let settings = Settings { correction, correction_low: 0.5, correction_high: 1.5, ..Settings::default() };
    let mut found = MismatchByLag::default();
    found.add(&settings, &tokens(), &runs(lags)).unwrap();
    found.iter().map(|(lag, of_lag)| (lag, of_lag.clone())).collect()
}

#[track_caller]
fn assert_close(found: Option<f64>, wanted: f64) {
    let found = found.unwrap();
    assert!((found - wanted).abs() < 1e-12 * wanted.abs().max(1.0), "{found} for {wanted}");
}

#[test]
fn each_lag_has_the_statistics_of_its_own_tokens() {
    let found = by_lag(Correction::None, &[(2, 1), (0, 2)]);
    let [(0, now), (2, old)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((now.tokens(), old.tokens()), (2, 1));
    // Ratios 2 and 1/4.
    assert_close(now.ratio_sample_size(), 2.25 * 2.25 / (2.0 * (4.0 + 0.0625)));
    assert_close(now.kl_k1(), (-LN2 + 2.0 * LN2) / 2.0);
    assert_close(now.kl_k3(), ((2.0 - 1.0 - LN2) + (0.25 - 1.0 + 2.0 * LN2)) / 2.0);
    assert_eq!((now.sample_size_of_factors(), now.bounded_fraction()), (Some(1.0), Some(0.0)));
    let quantile = now.ratio_quantile(0.99).unwrap();
    assert!((quantile / 2.0 - 1.0).abs() < 1.0 / 2048.0, "{quantile}");
    assert_eq!((old.ratio_quantile(0.01), old.kl_k1(), old.kl_k3()), (Some(1.0), Some(0.0), Some(0.0)));
}

#[test]
fn a_correction_of_tokens_masks_or_truncates_each_by_its_own_ratio() {
    let found = by_lag(Correction::TokenTruncate, &[(1, 2), (0, 1)]);
    let [(0, now), (1, old)] = &found[..] else { panic!("{found:?}") };
    // Factors 1 and 1.5 of the older version, 1/4 of the newer.
    assert_close(old.sample_size_of_factors(), 2.5 * 2.5 / (2.0 * 3.25));
    assert_eq!((old.bounded_fraction(), now.bounded_fraction()), (Some(0.5), Some(0.0)));
    let found = by_lag(Correction::TokenMask, &[(1, 2), (0, 1)]);
    let [(0, now), (1, old)] = &found[..] else { panic!("{found:?}") };
    assert_close(old.sample_size_of_factors(), 0.5);
    // The response's only token is masked.
    assert_eq!((now.sample_size_of_factors(), now.bounded_fraction()), (None, Some(1.0)));
}

#[test]
fn a_correction_of_the_sequence_is_the_product_over_all_versions() {
    // 1 x 2 x 1/4 = 1/2, inside the bounds.
    for (_, of_lag) in by_lag(Correction::SequenceMask, &[(3, 1), (1, 2)]) {
        assert_eq!((of_lag.bounded_fraction(), of_lag.sample_size_of_factors()), (Some(0.0), Some(1.0)));
    }
    let tight = Settings {
        correction: Correction::SequenceMask,
        correction_low: 0.75,
        correction_high: 1.5,
        ..Settings::default()
    };
    let mut found = MismatchByLag::default();
    found.add(&tight, &tokens(), &runs(&[(3, 1), (1, 2)])).unwrap();
    assert!(found.iter().all(|(_, of_lag)| of_lag.bounded_fraction() == Some(1.0)), "{found:?}");
}

#[test]
fn without_runs_every_token_is_of_the_steps_own_version() {
    assert_eq!(by_lag(Correction::TokenMask, &[]), by_lag(Correction::TokenMask, &[(0, 3)]));
    assert_eq!(MismatchByLag::default().mean_lag(), None);
    let mut found = MismatchByLag::default();
    found.add(&Settings::default(), &tokens(), &runs(&[(2, 1), (0, 2)])).unwrap();
    assert_close(found.mean_lag(), 2.0 / 3.0);
}

#[test]
fn runs_that_do_not_cover_the_trainable_tokens_are_refused() {
    let mut found = MismatchByLag::default();
    let error = found.add(&Settings::default(), &tokens(), &runs(&[(1, 4)])).unwrap_err().to_string();
    assert!(error.contains("lags") && error.contains('4') && error.contains('3'), "{error}");
    let absent = ResponseTokens { rollout_logp: None, ..tokens() };
    assert!(found.add(&Settings::default(), &absent, &[]).unwrap_err().to_string().contains("rollout_logp"));
    assert_eq!(found, MismatchByLag::default());
}

proptest! {
    #[test]
    fn factors_are_those_of_the_loss_however_versions_divide_a_response(
        step in steps(Rewards::Any, Holes::Some),
        correction in prop::sample::select(Correction::ALL),
        cut in 0.0..1.0f64,
    ) {
        let settings = Settings { correction, correction_low: 0.8, correction_high: 1.2, ..Settings::default() };
        for response in step.iter().flatten() {
            let tokens = response.tokens();
            let trainable = response.tokens().trainable();
            let first = (cut * trainable as f64) as usize;
            let mut found = MismatchByLag::default();
            found.add(&settings, &tokens, &runs(&[(2, first), (1, trainable - first)])).unwrap();
            let mut grad = vec![0.0; tokens.mask.len()];
            let loss = response_loss(&settings, 0.0, 1.0, &tokens, &mut grad).unwrap();
            prop_assert_eq!(found.tokens(), loss.tokens);
            let bounded: f64 = found.iter().map(|(_, of_lag)| of_lag.bounded_fraction().unwrap() * of_lag.tokens() as f64).sum();
            prop_assert_eq!(bounded.round() as usize, loss.correction_bounded);
            for (_, of_lag) in found.iter() {
                let size = of_lag.sample_size_of_factors();
                prop_assert!(size.is_none_or(|size| size > 0.0 && size <= 1.0 + 1e-12), "{size:?}");
                prop_assert!(of_lag.kl_k3().unwrap() >= -1e-12);
                let [low, middle, high] = [0.01, 0.5, 0.99].map(|q| of_lag.ratio_quantile(q).unwrap());
                prop_assert!(low <= middle && middle <= high);
            }
        }
    }
}
