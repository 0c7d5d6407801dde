//! Each lie is seen by the check that names it; honest engines, noisy ones too, are not accused.

use evenkeel_seeds::{Stream, Uniforms};

use super::super::policy::Policy;
use super::*;
use crate::evidence::weights::CalibratedNoise;

#[path = "simulation.rs"]
mod simulation;

/// Evidence that no check of an honest engine may reach here: far below every threshold of a run.
const HONEST: f64 = 1e3;
/// The threshold for the first engine of a run.
const THRESHOLD: f64 = 25_000.0;

/// How an engine draws a token from a policy, and what it says of it: the distribution it draws from, and the one it
/// reports.
type DrawingEngine = fn(&Policy, &mut dyn FnMut() -> f64) -> (Policy, Policy);

fn run(tolerances: Tolerances, sequences: usize, engine: DrawingEngine) -> EngineChecks {
    let mut uniforms = Uniforms::new(11, Stream::Tokens);
    let mut at = 0;
    let mut uniform = move || {
        at += 1;
        uniforms.at(at)
    };
    let mut checks = EngineChecks::new(tolerances);
    for sequence in 0..sequences {
        if sequence % 8 == 0 {
            checks.begin_round();
        }
        let tokens: Vec<AuditedToken> = (0..32)
            .map(|_| {
                let scale = 2.0 + 6.0 * uniform();
                let policy = Policy::of((0..64).map(|_| scale * (uniform() - 0.5)).collect::<Vec<_>>());
                let (drawn_from, reported) = engine(&policy, &mut uniform);
                let token = drawn_from.draw(uniform());
                policy.token(token, reported.0[token].max(1e-30).ln(), uniform())
            })
            .collect();
        checks.add_sequence(&tokens);
    }
    checks
}

fn exact() -> Tolerances {
    Tolerances::new(0.01, false)
}

fn found(tolerances: Tolerances, sequences: usize, engine: DrawingEngine) -> Vec<SamplerCheck> {
    let checks = run(tolerances, sequences, engine);
    SamplerCheck::ALL.into_iter().filter(|check| checks.evidence(*check) >= THRESHOLD).collect()
}

#[test]
fn an_honest_engine_is_not_accused() {
    let checks = run(exact(), 2_000, |policy, _| (policy.clone(), policy.clone()));
    for check in SamplerCheck::ALL {
        assert!(checks.evidence(check) < HONEST, "{check:?}: {}", checks.evidence(check));
    }
}

#[test]
fn nor_is_one_with_the_noise_of_a_narrow_type_that_samples_from_what_it_reports() {
    let checks = run(Tolerances::new(0.25, false), 2_000, |policy, uniforms| {
        let noisy = policy.noisy(0.05, &mut || uniforms());
        (noisy.clone(), noisy)
    });
    for check in SamplerCheck::ALL {
        assert!(checks.evidence(check) < HONEST, "{check:?}: {}", checks.evidence(check));
    }
}

#[test]
fn a_temperature_that_is_not_reported_is_the_samplings() {
    let lies: [DrawingEngine; 3] = [
        |policy, _| (policy.at_temperature(0.5), policy.clone()),
        |policy, _| (policy.at_temperature(1.3), policy.clone()),
        |policy, _| {
            let most = policy.0.iter().copied().fold(0.0, f64::max);
            (policy.without(|_, p| p < most), policy.clone())
        },
    ];
    for lie in lies {
        assert!(found(exact(), 40, lie).contains(&SamplerCheck::Temperature));
    }
}

#[test]
fn a_temperature_that_is_reported_is_in_the_log_probabilities() {
    let found = found(exact(), 60, |policy, _| (policy.at_temperature(1.02), policy.at_temperature(1.02)));
    assert_eq!(found, [SamplerCheck::LogProbabilities]);
}

#[test]
fn a_cut_that_is_not_reported_is_a_truncation() {
    let lies: [DrawingEngine; 3] = [
        |policy, _| (policy.top_p(0.95), policy.clone()),
        |policy, _| {
            let least = 0.05 * policy.0.iter().copied().fold(0.0, f64::max);
            (policy.without(|_, p| p < least), policy.clone())
        },
        |policy, _| (policy.without(|_, p| policy.0.iter().filter(|more| **more > p).count() >= 5), policy.clone()),
    ];
    for lie in lies {
        assert!(found(exact(), 150, lie).contains(&SamplerCheck::Truncation));
    }
}

#[test]
fn an_end_that_is_never_drawn_is_missed() {
    let found = found(exact(), 400, |policy, _| (policy.without(|token, _| token == 63), policy.clone()));
    assert!(found.contains(&SamplerCheck::EndToken), "{found:?}");
}

#[test]
fn log_probabilities_of_other_tokens_are_told_by_their_size() {
    let checks = run(exact(), 8, |policy, uniforms| {
        let other = Policy::of((0..64).map(|_| 2.0 * uniforms()).collect::<Vec<_>>());
        (policy.clone(), other)
    });
    assert!(checks.evidence(SamplerCheck::LogProbabilities) >= THRESHOLD && checks.are_gaps_large());
}

#[test]
fn where_the_settings_truncate_tokens_outside_of_the_cut_are_found() {
    // The learner's distribution is the truncated one; the engine ignores the setting.
    let mut uniforms = Uniforms::new(12, Stream::Tokens);
    let mut at = 0;
    let mut uniform = move || {
        at += 1;
        uniforms.at(at)
    };
    let mut checks = EngineChecks::new(Tolerances::new(0.01, true));
    checks.begin_round();
    for _ in 0..40 {
        let tokens: Vec<AuditedToken> = (0..32)
            .map(|_| {
                let policy = Policy::of((0..64).map(|_| 5.0 * (uniform() - 0.5)).collect::<Vec<_>>());
                let token = policy.draw(uniform());
                let cut = policy.top_p(0.8);
                cut.token(token, policy.0[token].ln(), uniform())
            })
            .collect();
        checks.add_sequence(&tokens);
    }
    assert!(checks.evidence(SamplerCheck::Truncation) >= THRESHOLD);
    assert!(checks.sums.outside > 0);
}

#[test]
fn a_first_token_that_is_missing_is_found_in_long_answers_of_a_noisy_engine() {
    let noise = CalibratedNoise { is_exact: false, usual_sequence: 0.06 };
    let audited = |is_missing: bool| {
        let mut uniforms = Uniforms::new(13, Stream::Tokens);
        let mut at = 0;
        let mut uniform = move || {
            at += 1;
            uniforms.at(at)
        };
        let mut checks = EngineChecks::new(Tolerances::calibrated(0.25, false, noise));
        for _ in 0..4 {
            checks.begin_round();
            for _ in 0..8 {
                let tokens: Vec<AuditedToken> = (0..256)
                    .map(|position| {
                        let policy = Policy::of((0..64).map(|_| 5.0 * (uniform() - 0.5)).collect::<Vec<_>>());
                        let noisy = policy.noisy(0.05, &mut uniform);
                        // What comes after the missing token was drawn as the second token, and is scored as the first.
                        let other = Policy::of((0..64).map(|_| 5.0 * (uniform() - 0.5)).collect::<Vec<_>>());
                        let drawn_from = if is_missing && position == 0 { &other } else { &noisy };
                        let token = drawn_from.draw(uniform());
                        policy.token(token, drawn_from.0[token].ln(), uniform())
                    })
                    .collect();
                checks.add_sequence(&tokens);
            }
        }
        checks.evidence(SamplerCheck::LogProbabilities)
    };
    assert!(audited(true) >= THRESHOLD, "{}", audited(true));
    assert!(audited(false) < HONEST, "{}", audited(false));
}

#[test]
fn an_engine_of_which_the_noise_is_known_gets_no_more_room_than_it_needs() {
    let narrow = |usual_sequence| CalibratedNoise { is_exact: false, usual_sequence };
    let exact = CalibratedNoise { is_exact: true, usual_sequence: 2e-6 };
    // The tolerance of a proof with a vLLM, which turns out to compute in f32.
    assert_eq!(Tolerances::calibrated(0.25, false, exact), Tolerances::new(0.01, false));
    assert_eq!(Tolerances::calibrated(0.25, false, narrow(0.06)).gap, 0.18);
    assert_eq!(Tolerances::calibrated(0.25, false, narrow(0.2)), Tolerances::new(0.25, false));
}
