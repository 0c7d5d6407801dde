//! Tests against a plain reference: full sorts, f64 throughout, one rule after the other.

use evenkeel_seeds::{Stream, Uniforms};

use super::super::truncate::Truncation;
use super::*;

/// A number of a stream that nothing but these tests draws from.
fn uniform(seed: u64, position: u64) -> f64 {
    Uniforms::new(seed, Stream::Tokens).at(position)
}

fn options(temperature: f32, top_k: usize, top_p: f32, min_p: f32) -> DrawOptions<'static> {
    DrawOptions {
        temperature,
        truncation: Truncation { top_k, top_p, min_p },
        excluded: &[],
        logprobs: Some(LogprobsRequest { mode: LogprobsMode::ProcessedLogprobs, alternatives: 5 }),
    }
}

/// Logits like a model's: most near zero, few high, no two equal.
fn row(vocabulary: usize, seed: u64) -> Vec<f32> {
    (0..vocabulary)
        .map(|id| (6.0 * uniform(seed, id as u64).powi(3) - 3.0 * uniform(seed + 1, id as u64)) as f32)
        .collect()
}

/// ln p of each token, minus infinity where it cannot be drawn.
fn reference(row: &[f32], options: DrawOptions<'_>) -> Vec<f64> {
    let temperature = f64::from(if options.temperature == 0.0 { 1.0 } else { options.temperature });
    let z: Vec<f64> = row.iter().map(|&x| f64::from(x) / temperature).collect();
    let softmax = |z: &[f64]| -> Vec<f64> {
        let top = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = z.iter().map(|x| (x - top).exp()).sum();
        z.iter().map(|x| (x - top).exp() / sum).collect()
    };
    let mut kept = z.clone();
    let truncation = options.truncation;
    if truncation.min_p > 0.0 {
        let p = softmax(&kept);
        let most = p.iter().copied().fold(0.0, f64::max);
        for (x, p) in kept.iter_mut().zip(&p) {
            if *p < f64::from(truncation.min_p) * most {
                *x = f64::NEG_INFINITY;
            }
        }
    }
    let order = |kept: &[f64]| {
        let mut order: Vec<usize> = (0..kept.len()).collect();
        order.sort_by(|&a, &b| kept[b].total_cmp(&kept[a]));
        order
    };
    if truncation.top_k > 0 {
        for &id in order(&kept).iter().skip(truncation.top_k) {
            kept[id] = f64::NEG_INFINITY;
        }
    }
    if truncation.top_p < 1.0 {
        let p = softmax(&kept);
        let mut before = 0.0;
        for id in order(&kept) {
            if before >= f64::from(truncation.top_p) {
                kept[id] = f64::NEG_INFINITY;
            }
            before += p[id];
        }
    }
    softmax(&kept).into_iter().map(f64::ln).collect()
}

fn cases() -> Vec<DrawOptions<'static>> {
    let mut cases = Vec::new();
    for temperature in [0.3, 1.0, 1.7] {
        for (top_k, top_p, min_p) in [
            (0, 1.0, 0.0),
            (1, 1.0, 0.0),
            (7, 1.0, 0.0),
            (0, 0.6, 0.0),
            (0, 0.999, 0.0),
            (0, 1e-6, 0.0),
            (20, 0.8, 0.0),
            (0, 1.0, 0.1),
            (9, 0.9, 0.05),
            (100_000, 1.0, 0.0),
        ] {
            cases.push(options(temperature, top_k, top_p, min_p));
        }
    }
    cases
}

#[test]
fn processed_logprobs_are_those_of_the_distribution_that_is_drawn_from() {
    let mut sampler = Sampler::default();
    for vocabulary in [128, 1000, 5003] {
        for (number, case) in cases().into_iter().enumerate() {
            let row = row(vocabulary, number as u64);
            let wanted = reference(&row, case);
            let mut ranked: Vec<usize> = (0..vocabulary).collect();
            ranked.sort_by(|&a, &b| wanted[b].total_cmp(&wanted[a]));
            for draw in 0..40 {
                let mut top = Vec::new();
                let drawn = sampler.draw(&mut row.clone(), case, uniform(9, draw), &mut top).unwrap();
                let exact = wanted[drawn.id as usize];
                assert!((f64::from(drawn.logprob.unwrap()) - exact).abs() < 1e-5, "{case:?}: {drawn:?}, {exact}");
                assert_eq!(top.len(), 5);
                for (&(id, logprob), &expected) in top.iter().zip(&ranked) {
                    if wanted[expected] == f64::NEG_INFINITY {
                        assert_eq!((logprob, wanted[id as usize]), (f32::NEG_INFINITY, f64::NEG_INFINITY));
                    } else {
                        assert_eq!(id as usize, expected, "{case:?}");
                        assert!((f64::from(logprob) - wanted[expected]).abs() < 1e-5);
                    }
                }
            }
        }
    }
}

#[test]
fn what_may_be_drawn_sums_to_one() {
    let mut sampler = Sampler::default();
    for case in cases() {
        let logprobs = Some(LogprobsRequest { mode: LogprobsMode::ProcessedLogprobs, alternatives: 1000 });
        let case = DrawOptions { logprobs, ..case };
        let mut top = Vec::new();
        sampler.draw(&mut row(1000, 4), case, 0.5, &mut top).unwrap();
        let sum: f64 = top.iter().map(|&(_, logprob)| f64::from(logprob).exp()).sum();
        assert!((sum - 1.0).abs() < 1e-4, "{case:?}: {sum}");
        let mut ids: Vec<_> = top.iter().map(|&(id, _)| id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..1000).collect::<Vec<_>>());
    }
}

#[test]
fn tokens_come_as_often_as_they_are_likely() {
    let mut sampler = Sampler::default();
    let draws = 60_000;
    for case in [options(1.0, 0, 1.0, 0.0), options(1.4, 8, 1.0, 0.0), options(0.8, 0, 0.9, 0.0)] {
        let row = row(50, 2);
        let wanted = reference(&row, case);
        let mut counts = vec![0f64; row.len()];
        for draw in 0..draws {
            let drawn = sampler.draw(&mut row.clone(), case, uniform(77, draw), &mut Vec::new()).unwrap();
            counts[drawn.id as usize] += 1.0;
        }
        for (id, count) in counts.iter().enumerate() {
            let p = wanted[id].exp();
            let deviation = (draws as f64 * p * (1.0 - p)).sqrt();
            assert!((count - draws as f64 * p).abs() <= 5.0 * deviation + 1e-9, "{case:?}, token {id}: {count} of {p}");
        }
    }
}

#[test]
fn raw_logprobs_are_the_models_own_whatever_is_asked() {
    let mut sampler = Sampler::default();
    let plain = reference(&row(300, 6), options(1.0, 0, 1.0, 0.0));
    for case in cases() {
        let logprobs = Some(LogprobsRequest { mode: LogprobsMode::RawLogprobs, alternatives: 5 });
        let case = DrawOptions { excluded: &[0, 1, 2], logprobs, ..case };
        let mut top = Vec::new();
        let drawn = sampler.draw(&mut row(300, 6), case, 0.3, &mut top).unwrap();
        assert!((f64::from(drawn.logprob.unwrap()) - plain[drawn.id as usize]).abs() < 1e-5);
        for (id, logprob) in top {
            assert!((f64::from(logprob) - plain[id as usize]).abs() < 1e-5);
        }
    }
}

#[test]
fn temperature_zero_takes_the_first_of_the_likeliest() {
    let mut sampler = Sampler::default();
    let mut top = Vec::new();
    let greedy = options(0.0, 0, 1.0, 0.0);
    let mut row = vec![0.0, 2.0, 2.0, -1.0, f32::NEG_INFINITY, 0.5];
    let drawn = sampler.draw(&mut row, greedy, 0.99, &mut top).unwrap();
    assert_eq!(drawn.id, 1);
    assert_eq!(top.iter().map(|&(id, _)| id).collect::<Vec<_>>(), [1, 2, 5, 0, 3]);
    let early = DrawOptions { excluded: &[1, 2], ..greedy };
    let drawn = sampler.draw(&mut row, early, 0.0, &mut Vec::new()).unwrap();
    assert_eq!(drawn.id, 5);
}

#[test]
fn both_ends_of_the_unit_interval_draw_a_token_that_may_be_drawn() {
    let mut sampler = Sampler::default();
    for case in cases() {
        let row = row(1000, 3);
        let wanted = reference(&row, case);
        for number in [0.0, 1.0 - f64::EPSILON / 2.0] {
            let drawn = sampler.draw(&mut row.clone(), case, number, &mut Vec::new()).unwrap();
            assert!(wanted[drawn.id as usize] > f64::NEG_INFINITY, "{case:?} at {number}");
        }
    }
}

#[test]
fn logits_that_are_no_numbers_are_an_error() {
    let mut sampler = Sampler::default();
    for broken in [f32::NAN, f32::INFINITY] {
        for temperature in [0.0, 1.0] {
            let mut row = row(64, 1);
            row[40] = broken;
            let case = options(temperature, 0, 1.0, 0.0);
            assert_eq!(sampler.draw(&mut row, case, 0.5, &mut Vec::new()), Err(NotFinite));
        }
    }
    let mut row = vec![f32::NEG_INFINITY; 8];
    let logprobs = Some(LogprobsRequest { mode: LogprobsMode::RawLogprobs, alternatives: 5 });
    let case = DrawOptions { logprobs, ..options(1.0, 0, 1.0, 0.0) };
    assert!(sampler.draw(&mut row, case, 0.5, &mut Vec::new()).is_err());
}
