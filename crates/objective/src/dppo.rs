//! DPPO, arXiv 2602.04879: PPO's ratio under a mask by divergence. A token is left out where its probability has moved
//! in the direction of its advantage by more than a threshold in divergence, and not in ratio: a rare token may move
//! far in ratio, a frequent one may not move far in probability.
//!
//! The divergence is that of the two-point distribution "this token or another", of which the sampled log-probabilities
//! are enough: total variation abs(pi - mu), or the Kullback-Leibler divergence mu log(mu / pi) + (1 - mu) log((1 - mu)
//! / (1 - pi)), pi the probability under the policy and mu that of `old_logp`. The thresholds are `clip_high` for A > 0
//! and `clip_low` for A < 0. The authors' runs have 0.15 for total variation and 0.05 for the other, and take mu from
//! the policy that sampled.

use crate::exp::exp;
use crate::log_ratio::MAX_RATIO;
use crate::phi::{Phi, bound, zero_outside};

/// What divides by it stays finite at a probability of 1; the authors' program adds the same.
const EPSILON: f64 = 1e-8;

/// A measure of how far apart two probabilities of a token are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Divergence {
    TotalVariation,
    /// The Kullback-Leibler divergence.
    Kl,
}

pub(crate) fn formula(divergence: Divergence, low: f64, high: f64) -> String {
    let of = match divergence {
        Divergence::TotalVariation => "abs(pi - mu)",
        Divergence::Kl => "mu log(mu/pi) + (1-mu) log((1-mu)/(1-pi))",
    };
    format!("rho A, 0 where ({of} > {high}, rho > 1, A > 0) or ({of} > {low}, rho < 1, A < 0)")
}

/// d phi / d logp = rho A, 0 where the token is left out, which counts as clipped. The mask has no gradient.
#[inline(always)]
pub(crate) fn phi(
    divergence: Divergence,
    log_ratio: f64,
    (logp, old_logp): (f64, f64),
    positive: bool,
    limits: (f64, f64),
) -> Phi {
    let (low, high) = limits;
    let rho = exp(log_ratio);
    // Log-probabilities may be rounded to slightly above 0, and lie far below what the exponential holds.
    let logp = bound(logp, -600.0, 0.0);
    let old_logp = bound(old_logp, -600.0, 0.0);
    let pi = exp(logp);
    let mu = exp(old_logp);
    let moved = match divergence {
        Divergence::TotalVariation => (pi - mu).abs(),
        Divergence::Kl => {
            let others = (1.0 - mu) * ((1.0 - mu + EPSILON) / (1.0 - pi + EPSILON)).ln();
            mu * (old_logp - logp) + others
        }
    };
    let left_out = if positive { (moved > high) & (log_ratio > 0.0) } else { (moved > low) & (log_ratio < 0.0) };
    let kept = bound(rho, 0.0, MAX_RATIO);
    Phi {
        value: if left_out { 0.0 } else { kept },
        slope: if left_out { 0.0 } else { zero_outside(rho, 0.0, MAX_RATIO) },
        clipped: left_out,
        clipped_lower: false,
    }
}
