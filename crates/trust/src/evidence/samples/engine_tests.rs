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
const THRESHOLD: f64 = 35_000.0;

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
        checks.add_sequence(&tokens, Drawing::Sampled);
        checks.learn(&tokens);
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
        checks.add_sequence(&tokens, Drawing::Sampled);
    }
    assert!(checks.evidence(SamplerCheck::Truncation) >= THRESHOLD);
    assert!(checks.sums.outside > 0);
}

#[test]
fn made_up_answers_of_an_evaluation_that_is_cut_are_found_by_what_the_cut_excludes() {
    let policy = Policy::of((0..64).map(|token| f64::from(token) / 8.0));
    let cut = policy.top_p(0.8);
    let audited = |id: usize| {
        let mut checks = EngineChecks::new(Tolerances::new(0.01, false));
        checks.begin_round();
        let token = cut.token(id, cut.0[id].max(1e-30).ln(), 0.5);
        (0..4).for_each(|_| checks.add_sequence(&[token; 8], Drawing::Cut));
        (checks.evidence(SamplerCheck::Truncation), checks.sums.outside)
    };
    assert!(matches!(audited(63), (evidence, 0) if evidence < HONEST), "{:?}", audited(63));
    assert!(matches!(audited(0), (evidence, 32) if evidence >= THRESHOLD), "{:?}", audited(0));
}

#[test]
fn a_first_token_that_is_missing_is_found_in_long_answers_of_a_noisy_engine() {
    let noise = CalibratedNoise::even(false, 0.05, 0.06);
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
                checks.add_sequence(&tokens, Drawing::Sampled);
            }
        }
        checks.evidence(SamplerCheck::LogProbabilities)
    };
    assert!(audited(true) >= THRESHOLD, "{}", audited(true));
    assert!(audited(false) < HONEST, "{}", audited(false));
}

#[test]
fn an_engine_of_which_the_noise_is_known_gets_no_more_room_than_it_needs() {
    // The tolerance of a proof with a vLLM, which turns out to compute in f32.
    let exact = CalibratedNoise::even(true, 1e-6, 2e-6);
    let calibrated = Tolerances::calibrated(0.25, false, exact);
    let expected = Tolerances { unusual: 1e-4, far: 1e-4, noise: Some(exact), ..Tolerances::new(0.01, false) };
    assert_eq!(calibrated, expected);
    let narrow = CalibratedNoise::even(false, 0.05, 0.06);
    assert_eq!(Tolerances::calibrated(0.25, false, narrow).gap, 0.25);
    assert!((SampleNoise::new(narrow).unusual() - 3.6).abs() < 1e-12, "0.18 nats of every token");
}

/// Evidence after answers of which each token's gap is that of `gap`, by the round, the policy and the token.
fn with_gaps(
    noise: CalibratedNoise,
    rounds: usize,
    tokens: usize,
    gap: impl Fn(usize, &Policy, usize, &mut dyn FnMut() -> f64) -> f64,
) -> EngineChecks {
    let mut uniforms = Uniforms::new(17, Stream::Tokens);
    let mut at = 0;
    let mut uniform = move || {
        at += 1;
        uniforms.at(at)
    };
    let mut checks = EngineChecks::new(Tolerances::calibrated(0.25, false, noise));
    for round in 0..rounds {
        checks.begin_round();
        for _ in 0..8 {
            let token = |_| {
                let policy = Policy::of((0..64).map(|_| 5.0 * (uniform() - 0.5)).collect::<Vec<_>>());
                let token = policy.draw(uniform());
                let reported = policy.0[token].ln() + gap(round, &policy, token, &mut uniform);
                policy.token(token, reported, uniform())
            };
            let tokens: Vec<AuditedToken> = (0..tokens).map(token).collect();
            checks.add_sequence(&tokens, Drawing::Sampled);
            checks.learn(&tokens);
        }
    }
    checks
}

fn normal(uniform: &mut dyn FnMut() -> f64) -> f64 {
    (0..12).map(|_| uniform()).sum::<f64>() - 6.0
}

#[test]
fn a_narrow_type_is_not_accused_at_a_low_temperature_where_its_noise_is_larger() {
    let audited = |noise: f64, divisor: f64, drawing: Drawing| {
        let mut uniforms = Uniforms::new(19, Stream::Tokens);
        let mut at = 0;
        let mut uniform = move || {
            at += 1;
            uniforms.at(at)
        };
        let measured = CalibratedNoise::even(false, 0.08, 0.09);
        let mut checks = EngineChecks::new(Tolerances::calibrated(0.25, false, measured));
        for _ in 0..40 {
            checks.begin_round();
            for _ in 0..8 {
                let token = |_| {
                    let policy = Policy::of((0..64).map(|_| 1.5 * (uniform() - 0.5)).collect::<Vec<_>>());
                    let reported = policy.noisy(noise, &mut uniform).at_temperature(0.3);
                    let token = reported.draw(uniform());
                    let token = policy.at_temperature(0.3).token(token, reported.0[token].ln(), uniform());
                    AuditedToken { divisor, ..token }
                };
                let tokens: Vec<AuditedToken> = (0..16).map(token).collect();
                checks.add_sequence(&tokens, drawing);
                checks.learn(&tokens);
            }
        }
        checks
    };
    for drawing in [Drawing::Sampled, Drawing::Cut] {
        let honest = audited(0.08, 0.3, drawing);
        for check in SamplerCheck::ALL {
            assert!(honest.evidence(check) < HONEST, "{check:?}: {}", honest.evidence(check));
        }
        // As if it were noise of temperature 1, and noise of other weights.
        for lie in [audited(0.08, 1.0, drawing), audited(0.8, 0.3, drawing)] {
            assert!(lie.evidence(SamplerCheck::LogProbabilities) >= THRESHOLD);
        }
    }
}

#[test]
fn a_gap_of_a_thousandth_is_far_above_the_noise_of_f32_and_found_in_two_steps() {
    let noise = CalibratedNoise::even(true, 1e-7, 2e-7);
    let honest = with_gaps(noise, 60, 32, |_, _, _, uniform| 1e-7 * normal(uniform));
    assert!(SamplerCheck::ALL.into_iter().all(|check| honest.evidence(check) < HONEST));
    let faulty = with_gaps(noise, 2, 32, |_, _, _, uniform| 1e-3 * normal(uniform));
    assert!(faulty.evidence(SamplerCheck::LogProbabilities) >= THRESHOLD && faulty.are_gaps_large());
}

#[test]
fn noise_of_a_narrow_type_that_doubles_is_followed_and_a_jump_is_found() {
    let noise = CalibratedNoise::even(false, 0.05, 0.07);
    // Heavy tails, as bf16 has them, in answers of a few tokens.
    let tailed = |uniform: &mut dyn FnMut() -> f64| normal(uniform) * (0.5 + 1.5 * uniform().powi(3));
    let drifting =
        with_gaps(noise, 400, 4, |round, _, _, uniform| 0.05 * (1.0 + round as f64 / 400.0) * tailed(uniform));
    for check in SamplerCheck::ALL {
        assert!(drifting.evidence(check) < HONEST, "{check:?}: {}", drifting.evidence(check));
    }
    let jumping = with_gaps(
        noise,
        60,
        4,
        |round, _, _, uniform| {
            if round < 50 { 0.05 * tailed(uniform) } else { 0.5 * tailed(uniform) }
        },
    );
    assert!(jumping.evidence(SamplerCheck::LogProbabilities) >= THRESHOLD);
}

#[test]
fn heavy_tails_in_short_answers_of_a_narrow_type_are_honest_and_one_answer_in_fifty_far_off_is_not() {
    // Student's t with three degrees of freedom, of answers of four tokens; 19 in 20 of these stay below 1.6.
    let noise = CalibratedNoise::even(false, 0.05, 0.08);
    let evidence = |share: f64| {
        let gap = |_: usize, _: &Policy, _: usize, uniform: &mut dyn FnMut() -> f64| {
            let is_far = uniform() < share / 4.0;
            let squares: f64 = (0..3).map(|_| normal(uniform).powi(2)).sum();
            0.05 * if is_far { 40.0 } else { normal(uniform) / squares.sqrt() }
        };
        with_gaps(noise, 500, 4, gap).evidence(SamplerCheck::LogProbabilities)
    };
    assert!(evidence(0.0) < HONEST, "{}", evidence(0.0));
    assert!(evidence(0.02) >= THRESHOLD, "{}", evidence(0.02));
}

#[test]
fn gaps_of_one_id_are_a_fault_of_its_row_and_gaps_of_all_ids_are_noise() {
    let noise = CalibratedNoise::even(false, 0.02, 0.03);
    let of_one =
        with_gaps(noise, 300, 16, |_, _, token, uniform| 0.005 * normal(uniform) - if token == 7 { 0.05 } else { 0.0 });
    assert!(of_one.evidence(SamplerCheck::Rows) >= THRESHOLD, "{}", of_one.evidence(SamplerCheck::Rows));
    let found: Vec<_> = of_one.rows().collect();
    assert!(matches!(&found[..], [(7, mean, _)] if (mean + 0.05).abs() < 0.005), "{found:?}");
    let of_all = with_gaps(noise, 300, 16, |_, _, token, uniform| {
        0.02 * normal(uniform) + if token % 2 == 0 { 0.01 } else { -0.01 }
    });
    assert!(of_all.evidence(SamplerCheck::Rows) < HONEST);
}

#[test]
fn errors_of_the_rows_of_a_quantized_head_are_no_fault_where_the_tolerance_is_raised() {
    let evidence = |tolerance: f64| {
        let noise = CalibratedNoise::even(false, 0.1, 0.12);
        let mut checks = EngineChecks::new(Tolerances::calibrated(tolerance, false, noise));
        let mut uniforms = Uniforms::new(23, Stream::Tokens);
        let policy = Policy::of((0..64).map(f64::from).map(|token| (token * 0.7).sin()));
        for round in 0..200 {
            checks.begin_round();
            let mut token = |at: u64| {
                let id = policy.draw(uniforms.at(32 * round + at));
                // An error of four bits, its own for each row.
                let error = 0.3 * ((id * id) as f64 * 0.37).sin().powi(3);
                policy.token(id, policy.0[id].ln() + error, 0.5)
            };
            let tokens: Vec<AuditedToken> = (0..32).map(&mut token).collect();
            checks.add_sequence(&tokens, Drawing::Sampled);
        }
        checks.evidence(SamplerCheck::Rows)
    };
    assert!(evidence(0.25) >= THRESHOLD, "{}", evidence(0.25));
    assert!(evidence(0.5) < HONEST, "{}", evidence(0.5));
}

#[test]
fn answers_of_the_likeliest_tokens_may_lack_what_noise_takes_and_no_more() {
    let after = |off: f64| {
        let mut checks =
            EngineChecks::new(Tolerances::calibrated(0.25, false, CalibratedNoise::even(false, 0.05, 0.06)));
        checks.begin_round();
        for _ in 0..16 {
            // The likeliest token is this far above the one that was returned.
            let policy = Policy::of((0..64).map(|token| {
                if token == 0 {
                    4.0 + off
                } else if token == 1 {
                    4.0
                } else {
                    0.0
                }
            }));
            let token = policy.token(1, policy.0[1].ln(), 0.5);
            checks.add_sequence(&[token; 8], Drawing::Likeliest);
        }
        checks.evidence(SamplerCheck::Temperature)
    };
    assert!(after(0.1) < HONEST, "{}", after(0.1));
    assert!(after(1.0) >= THRESHOLD, "{}", after(1.0));
}
