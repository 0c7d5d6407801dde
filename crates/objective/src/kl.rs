//! KL terms against a reference policy, and the slope of the entropy term. Both take the weights of
//! [`regularizer_weights`](crate::regularizer_weights), whatever the aggregation is.

use crate::error::{Error, same_length};
use crate::exp::exp;
use crate::lanes::{LANES, kept, load_difference, load_keep, sum, trainable_tokens};
use crate::names::{Refused, named};
use crate::{Real, Settings};

const REFUSED: &[Refused] =
    &[(&["full"], "it needs the logits of the whole vocabulary", "k3, or k2 for an unbiased gradient")];

named! {
    /// Estimators of KL(policy, reference) from the sampled token, d = `logp - reference_logp`
    /// (Schulman, "Approximating KL divergence", 2020).
    KlEstimator, field "kl_estimator", refused REFUSED, {
        /// `d`; its gradient is 0 in expectation, so as a loss it teaches nothing.
        K1 = "k1" ["kl"],
        /// `abs(d)`.
        Abs = "abs",
        /// `d^2 / 2`, whose gradient is that of the KL in expectation.
        K2 = "k2" ["mse"],
        /// `exp(-d) - 1 + d`, d saturated at 20 and the value at 10 as in verl; beyond, the gradient is 0.
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
    let x = (-d).clamp(-20.0, 20.0);
    let ratio = exp(x);
    let value = ratio - x - 1.0;
    if value > MAX_K3 { (MAX_K3, 0.0) } else { (value, 1.0 - ratio) }
}

/// Sums of a KL term over trainable tokens; they add up over responses and micro-batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KlStats {
    /// The part of the loss: `kl_coefficient` times the weighted sum.
    pub loss: f64,
    /// The sum of the estimates; divided by `tokens` it is the mean KL of the log.
    pub kl_sum: f64,
    /// Trainable tokens.
    pub tokens: usize,
}

impl KlStats {
    /// Adds the sums of another part of the step.
    pub fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        self.kl_sum += other.kl_sum;
        self.tokens += other.tokens;
    }

    /// The mean estimate; absent where there is no token.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.tokens > 0).then(|| self.kl_sum / self.tokens as f64)
    }
}

/// The KL term of one response: its loss, and its gradient *added* to `grad`.
///
/// `mask`, `logp`, `reference_logp` and `grad` have one element for each token; what stands at a token whose mask is
/// false is never computed with. `weight` is the response's regularizer weight. With `kl_coefficient` 0 the estimate is
/// measured and `grad` left as it is.
///
/// # Errors
/// Slices of different lengths.
pub fn response_kl<T: Real>(
    settings: &Settings,
    weight: f64,
    mask: &[bool],
    logp: &[T],
    reference_logp: &[T],
    grad: &mut [T],
) -> Result<KlStats, Error> {
    same_length("logp", logp.len(), "mask", mask.len())?;
    same_length("reference_logp", reference_logp.len(), "mask", mask.len())?;
    same_length("grad", grad.len(), "mask", mask.len())?;
    let (mut keep, mut value, mut slope) = ([0; LANES], [0.0; LANES], [0.0; LANES]);
    let scale = settings.kl_coefficient * weight;
    let mut kl_sum = 0.0;
    for start in (0..mask.len()).step_by(LANES) {
        let block = start..mask.len().min(start + LANES);
        load_keep(&mask[block.clone()], &mut keep);
        load_difference(&keep, &logp[block.clone()], &reference_logp[block.clone()], &mut value);
        for i in 0..LANES {
            // Every estimate of 0 is 0, so that only the slope has to be kept from masked tokens.
            let (v, s) = settings.kl_estimator.value_and_slope(value[i]);
            (value[i], slope[i]) = (v, kept(s, keep[i]));
        }
        kl_sum += sum(&value);
        if scale != 0.0 {
            for (grad, slope) in grad[block].iter_mut().zip(&slope) {
                *grad = T::from_f64(grad.to_f64() + scale * slope);
            }
        }
    }
    let loss = if scale == 0.0 { 0.0 } else { scale * kl_sum };
    Ok(KlStats { loss, kl_sum, tokens: trainable_tokens(mask) })
}

impl Settings {
    /// d loss / d entropy of each trainable token of a response with this regularizer weight. The entropy term of the
    /// loss is this times the sum of the response's entropies: it is subtracted, so that a positive coefficient
    /// rewards entropy.
    #[must_use]
    pub fn entropy_slope(&self, weight: f64) -> f64 {
        if self.entropy_coefficient == 0.0 { 0.0 } else { -self.entropy_coefficient * weight }
    }
}
