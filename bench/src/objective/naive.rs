//! The objective written plainly: a token at a time, a weight for each response and rule, the standard exp.

use evenkeel_objective::{Aggregation, Settings};

use super::step::{GROUP, RESPONSES, TOKENS, UpdateStep};

/// Advantages of `grpo`, weights of every rule, loss and gradient of ppo.
pub(crate) fn objective(settings: &Settings, step: &UpdateStep, grad: &mut [f32]) -> f64 {
    let groups = RESPONSES / GROUP;
    let lengths: Vec<f64> = (0..RESPONSES).map(|r| step.tokens(r).mask.iter().filter(|m| **m).count() as f64).collect();
    let mut loss = 0.0;
    for g in 0..groups {
        let members = g * GROUP..(g + 1) * GROUP;
        let rewards = &step.rewards[members.clone()];
        let mean = rewards.iter().sum::<f64>() / GROUP as f64;
        let variance = rewards.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / GROUP as f64;
        let a: Vec<f64> = rewards.iter().map(|r| (r - mean) / (variance + 1e-6).sqrt()).collect();
        let t = &lengths[members.clone()];
        for (i, r) in members.enumerate() {
            let weights: Vec<f64> = Aggregation::ALL
                .iter()
                .map(|&rule| weight(rule, &a, t, i, &lengths, groups, settings.vl_norm_alpha))
                .collect();
            let w = std::hint::black_box(&weights)
                [Aggregation::ALL.iter().position(|&x| x == settings.aggregation).unwrap_or(0)];
            let tokens = step.tokens(r);
            for token in 0..TOKENS {
                let out = &mut grad[r * TOKENS + token];
                *out = 0.0;
                if !tokens.mask[token] {
                    continue;
                }
                let rho = (f64::from(tokens.logp[token]) - f64::from(tokens.old_logp[token])).exp();
                let clipped = rho.clamp(1.0 - settings.clip_low, 1.0 + settings.clip_high);
                loss -= w * (rho * a[i]).min(clipped * a[i]);
                if rho * a[i] <= clipped * a[i] {
                    *out = (-w * rho * a[i]) as f32;
                }
            }
        }
    }
    loss
}

fn weight(rule: Aggregation, a: &[f64], t: &[f64], i: usize, lengths: &[f64], groups: usize, alpha: f64) -> f64 {
    let p = groups as f64;
    let g = a.len() as f64;
    let side: Vec<usize> = (0..a.len()).filter(|&j| a[j] * a[i] > 0.0).collect();
    let over_side = |f: &dyn Fn(usize) -> f64| side.iter().map(|&j| f(j)).sum::<f64>();
    match rule {
        Aggregation::Token => 1.0 / (p * t.iter().sum::<f64>()),
        Aggregation::BatchToken => 1.0 / lengths.iter().sum::<f64>(),
        Aggregation::Sequence => 1.0 / (p * g * t[i]),
        Aggregation::SequenceSum => 1.0 / (p * g * TOKENS as f64),
        Aggregation::Balanced | Aggregation::BalancedCount | Aggregation::Sides if side.is_empty() => 0.0,
        Aggregation::Balanced => over_side(&|j| a[j].abs()) / (p * g * over_side(&|j| a[j].abs() * t[j])),
        Aggregation::BalancedCount => side.len() as f64 / (p * g * over_side(&|j| t[j])),
        // The dial is absent here, which is that of balanced.
        Aggregation::Sides => over_side(&|j| a[j].abs()) / (p * g * over_side(&|j| a[j].abs() * t[j])),
        Aggregation::Luspo => 1.0 / (p * g),
        Aggregation::VlNorm => {
            t[i].powf(-alpha) / (TOKENS as f64 * lengths.iter().map(|t| t.powf(-alpha)).sum::<f64>())
        }
        other => panic!("{other} is not written down here: its time and its loss would not be compared"),
    }
}
