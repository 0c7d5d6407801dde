//! SAPO, arXiv 2511.20347: a soft gate in place of the clip. The gate f(rho) = 4/tau sigmoid(tau (rho - 1)) has the
//! slope of rho at rho = 1 and falls off smoothly on both sides. tau is `sapo_tau_pos` for A > 0 and `sapo_tau_neg` for
//! A < 0; the paper has 1 and 1.05, so that what is pushed down is damped sooner.

use crate::exp::exp;
use crate::log_ratio::MAX_RATIO;
use crate::phi::{Phi, bound, zero_outside};

/// The temperatures of the gate: of tokens with A > 0, and of those with A < 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gate {
    /// Setting `sapo_tau_pos`, for tokens with A > 0.
    pub(crate) positive: f64,
    /// Setting `sapo_tau_neg`, for tokens with A < 0.
    pub(crate) negative: f64,
}

/// Beyond it a sigmoid is 0 or 1 to the last bit of its slope; the exponential holds up to 700.
const FLAT: f64 = 600.0;

pub(crate) fn formula(gate: Gate) -> String {
    let Gate { positive, negative } = gate;
    format!("A 4/tau sigmoid(tau (rho - 1)), tau = {positive} for A > 0, {negative} for A < 0")
}

/// d phi / d logp = A 4 s (1 - s) rho with s the sigmoid. No token counts as clipped.
#[inline(always)]
pub(crate) fn phi(rho: f64, positive: bool, gate: Gate) -> Phi {
    let tau = if positive { gate.positive } else { gate.negative };
    let falling = exp(bound(-tau * (rho - 1.0), -FLAT, FLAT));
    let sigmoid = 1.0 / (1.0 + falling);
    // 1 - s is s times the exponential, without cancellation.
    let slope = 4.0 * sigmoid * (sigmoid * falling) * zero_outside(rho, 0.0, MAX_RATIO);
    Phi { value: 4.0 / tau * sigmoid, slope, clipped: false, clipped_lower: false }
}
