//! Estimators of the KL divergence from a reference policy, each with its gradient.

use crate::exp::exp;
use crate::log_ratio::saturate;
use crate::names::{Refused, named};

const REFUSED: &[Refused] =
    &[(&["full"], "it needs the logits of the whole vocabulary", "k3, or k2 for an unbiased gradient")];

named! {
    /// Estimators of KL(policy, reference) from the sampled token, d = `logp - reference_logp`
    /// (Schulman, "Approximating KL divergence", 2020).
    KlEstimator, field "kl_estimator", refused REFUSED, {
        /// `d`; its gradient is 0 in expectation, so that as a loss it carries no learning signal.
        K1 = "k1" ["kl"],
        /// `abs(d)`.
        Abs = "abs",
        /// `d^2 / 2`, whose gradient is that of the KL in expectation.
        K2 = "k2" ["mse"],
        /// `exp(-d) - 1 + d` (GRPO, arXiv 2402.03300, eq. 4), d saturated at 20 and the value at 10 as in verl; beyond,
        /// the gradient is 0.
        K3 = "k3" ["low-var-kl"],
        /// The value of `k1` with the gradient of `k2`.
        K1Plus = "k1+" ["kl+"],
        /// The value of `k3` with the gradient of `k2`.
        K3Plus = "k3+" ["low-var-kl+"],
    }
}

/// verl's bound on the value of `k3`.
const MAX_K3: f64 = 10.0;

impl KlEstimator {
    /// The value and its derivative with respect to logp, at d = `logp - reference_logp`.
    #[must_use]
    #[inline(always)]
    pub fn value_and_slope(self, d: f64) -> (f64, f64) {
        match self {
            Self::K1 => (d, 1.0),
            Self::Abs => (d.abs(), if d == 0.0 { 0.0 } else { d.signum() }),
            Self::K2 => (0.5 * d * d, d),
            Self::K3 => k3(d),
            Self::K1Plus => (d, d),
            Self::K3Plus => (k3(d).0, d),
        }
    }

    /// The formula as one line of text.
    #[must_use]
    pub const fn formula(self) -> &'static str {
        match self {
            Self::K1 => "d",
            Self::Abs => "abs(d)",
            Self::K2 => "d^2 / 2",
            Self::K3 => "exp(-d) - 1 + d",
            Self::K1Plus => "d with the gradient of d^2 / 2",
            Self::K3Plus => "exp(-d) - 1 + d with the gradient of d^2 / 2",
        }
    }
}

#[inline(always)]
fn k3(d: f64) -> (f64, f64) {
    let x = saturate(-d);
    let ratio = exp(x);
    let value = ratio - x - 1.0;
    if value > MAX_K3 { (MAX_K3, 0.0) } else { (value, 1.0 - ratio) }
}
