//! Laws over small vocabularies, where every mean is a sum; and how soon lies are found.

use proptest::prelude::*;

use super::*;
use crate::evidence::distributions::{Policy, policies, run};

/// The mean of a factor over tokens drawn from `q`.
fn mean(q: &[f64], factor: impl Fn(usize) -> f64) -> f64 {
    q.iter().enumerate().filter(|(_, q)| **q > 0.0).map(|(token, q)| q * factor(token)).sum()
}

proptest! {
    #[test]
    fn every_factor_has_a_mean_of_at_most_1_for_an_engine_that_samples_from_what_it_reports(
        logits in prop::collection::vec(-6.0_f64..6.0, 2..12),
        noise in prop::collection::vec(-0.04_f64..0.04, 12),
        cut in 0.0_f64..1.0,
    ) {
        let p = Policy::softmax(&logits, 1.0);
        let noisy: Vec<f64> = logits.iter().zip(&noise).map(|(logit, noise)| logit + noise).collect();
        let q = Policy::softmax(&noisy, 1.0);
        let weight = |token: usize| {
            importance_weight(libm::log(p.probabilities[token]), libm::log(q.probabilities[token]))
        };
        for stake in SURPRISE_STAKES {
            let found = mean(&q.probabilities, |token| surprise_factor(stake, weight(token), p.surprise(token), 1e-4));
            prop_assert!(found <= 1.0 + 1e-9, "{stake}: {found}");
        }
        let is_rare = |token: usize| p.probabilities[token] < cut;
        let probability: f64 = p.probabilities.iter().filter(|p| **p < cut).sum();
        for stake in STAKES {
            let found = mean(&q.probabilities, |token| event_factor(stake, weight(token), is_rare(token), probability));
            prop_assert!(found <= 1.0 + 1e-9, "{stake}: {found}");
        }
    }

    #[test]
    fn no_token_makes_a_factor_negative(weight in 0.0_f64..1e9, probability in 0.0_f64..=1.0, happened: bool) {
        for stake in STAKES {
            prop_assert!(event_factor(stake, weight, happened, probability) >= 0.0);
        }
    }

    #[test]
    fn a_token_that_the_engine_cannot_draw_is_within_the_stated_tolerance(
        logits in prop::collection::vec(-4.0_f64..4.0, 3..12), share in 0.0_f64..1.0,
    ) {
        // The engine's cut leaves out a token that the learner's keeps, of a probability within the tolerance.
        let tolerance = 0.01;
        let mut p = Policy::softmax(&logits, 1.0).probabilities;
        let last = p.len() - 1;
        let scale = (1.0 - share * tolerance) / (1.0 - p[last]);
        p[..last].iter_mut().for_each(|p| *p *= scale);
        p[last] = share * tolerance;
        let p = Policy::of(p);
        let mut q = p.probabilities.clone();
        q[last] = 0.0;
        q.iter_mut().for_each(|q| *q /= 1.0 - p.probabilities[last]);
        for stake in SURPRISE_STAKES {
            let found = mean(&q, |token| {
                let weight = importance_weight(libm::log(p.probabilities[token]), libm::log(q[token]));
                surprise_factor(stake, weight, p.surprise(token), tolerance)
            });
            prop_assert!(found <= 1.0 + 1e-9, "{stake}: {found}");
        }
    }
}

#[test]
fn a_token_outside_of_the_learners_support_has_no_weight() {
    assert_eq!(importance_weight(f64::NEG_INFINITY, -1.0), 0.0);
    assert!((importance_weight(-1.0, -2.0) - std::f64::consts::E).abs() < 1e-12);
}

#[test]
fn the_tokens_that_a_temperature_needs_follow_from_the_variance() {
    assert_eq!(tokens_to_decision(1.0, 0.1).map(f64::round), Some(2500.0));
    assert_eq!(tokens_to_decision(0.0, 0.1), None);
}

/// Tokens until `evidence` exceeds 1e6, in a run of one round.
fn tokens_to_alarm(seed: u64, most: usize, lie: impl Fn(&Policy) -> Policy) -> Option<usize> {
    let mut bets = SurpriseBets::new(1e-4);
    bets.begin_round();
    run(seed, most, lie, |p, token, _| {
        // The engine reports the policy, so that all weights are 1.
        bets.add(1.0, p.surprise(token));
        bets.evidence() >= 1e6
    })
}

#[test]
fn a_wrong_temperature_is_found_within_the_tokens_that_its_size_needs() {
    let variance = policies(1, 400).map(|p| p.variance()).sum::<f64>() / 400.0;
    // 2 ln(1e6) / (d² v) by theory; grid, tolerance and the mixture over rounds take up to as much again.
    for (temperature, slack) in [(0.5_f64, 12.0), (0.9, 2.5), (1.1, 2.5), (1.3, 4.0)] {
        let d = (1.0 / temperature - 1.0).abs();
        let limit = 2.0 * libm::log(1e6) / (d * d * variance) * slack;
        let mut found: Vec<usize> = (0..20)
            .map(|seed| tokens_to_alarm(seed, 200_000, |p| p.at_temperature(temperature)).expect("found"))
            .collect();
        found.sort_unstable();
        assert!((found[10] as f64) < limit, "temperature {temperature}: {} tokens, allowed {limit:.0}", found[10]);
    }
    let two_percent = tokens_to_alarm(3, 400_000, |p| p.at_temperature(1.02)).expect("found");
    let limit = 2.0 * libm::log(1e6) / (4e-4 * variance) * 2.5;
    assert!((two_percent as f64) < limit, "{two_percent} tokens, allowed {limit:.0}");
}

#[test]
fn greedy_decoding_is_found_within_two_hundred_tokens() {
    let found = tokens_to_alarm(5, 2_000, Policy::greedy);
    assert!(found.is_some_and(|tokens| tokens < 200), "{found:?}");
}

#[test]
fn a_cut_is_found_by_the_events_that_stay_away() {
    // The mass of less likely tokens, of which a top-p of 0.95 takes away the lowest 5 %.
    for (mass, limit) in [(0.95, 1_500), (0.5, 900)] {
        let mut bets = EventBets::default();
        bets.begin_round();
        let found = run(
            9,
            20_000,
            |p| p.top_p(mass),
            |p, token, uniform| {
                let (less, tied) = p.less_likely(token);
                bets.add(1.0, less + uniform * tied < 0.05, 0.05);
                bets.evidence() >= 1e6
            },
        );
        assert!(found.is_some_and(|tokens| tokens < limit), "top-p {mass}: {found:?}");
    }
    // Tokens below a twentieth of the likeliest one, which a min-p of 0.05 takes away.
    let mut bets = EventBets::default();
    bets.begin_round();
    let found = run(
        9,
        20_000,
        |p| p.min_p(0.05),
        |p, token, _| {
            let least = 0.05 * p.probabilities.iter().copied().fold(0.0, f64::max);
            let mass = p.probabilities.iter().filter(|p| **p < least).sum();
            bets.add(1.0, p.probabilities[token] < least, mass);
            bets.evidence() >= 1e6
        },
    );
    assert!(found.is_some_and(|tokens| tokens < 1_500), "min-p: {found:?}");
}

#[test]
fn honest_runs_stay_far_below_every_threshold() {
    let mut above = 0;
    let runs = 400;
    for seed in 0..runs {
        let mut surprise = SurpriseBets::new(1e-4);
        let mut event = EventBets::default();
        let mut tokens = 0;
        let reached = run(1000 + seed, 5_000, Policy::clone, |p, token, uniform| {
            if tokens % 100 == 0 {
                surprise.begin_round();
                event.begin_round();
            }
            tokens += 1;
            surprise.add(1.0, p.surprise(token));
            let (less, tied) = p.less_likely(token);
            event.add(1.0, less + uniform * tied < 0.05, 0.05);
            surprise.evidence() >= 100.0 || event.evidence() >= 100.0
        });
        above += usize::from(reached.is_some());
    }
    // Two processes at 1 % each would allow 8; eight standard deviations above none of them is still below that.
    assert!(above <= 8, "{above} of {runs}");
}
