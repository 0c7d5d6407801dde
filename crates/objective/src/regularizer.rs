//! Terms of the loss beside the policy's: any that compares the log-probability of a token with another one, the KL
//! term among them, and the slope of the entropy term. All use the weights of
//! [`regularizer_weights`](crate::regularizer_weights), whatever the aggregation.

use crate::error::{Error, validate_length};
use crate::tokens::{BLOCK, for_each_block, sum, trainable_tokens};
use crate::{Real, Settings};

/// Sums of a term over trainable tokens; they add up over responses and micro-batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TermStats {
    /// The part of the loss: the weighted sum of the values.
    pub loss: f64,
    /// The sum of the values, such as estimates of a divergence; divided by `tokens` it is their logged mean.
    pub sum: f64,
    /// Number of trainable tokens.
    pub tokens: usize,
    /// Tokens at which a bound of the term applied; 0 for terms without one.
    pub bounded: usize,
}

impl TermStats {
    /// Adds the sums of another part of the mini-batch.
    pub fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        self.sum += other.sum;
        self.tokens += other.tokens;
        self.bounded += other.bounded;
    }

    /// The mean value; absent if there are no tokens.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.tokens > 0).then(|| self.sum / self.tokens as f64)
    }
}

/// A term of one response that has a value at each token: its loss, and its gradient *added* to `grad`.
///
/// `mask`, `logp`, `other_logp` and `grad` have one element for each token; values at masked tokens have no effect.
/// `scale` is what each value counts in the loss: the coefficient times the response's regularizer weight. With 0 the
/// values are measured and `grad` unchanged. `value_and_slope` gives the value at `(logp, other_logp)` and its
/// derivative with respect to logp.
///
/// # Errors
/// Slices of different lengths.
pub fn response_term<T: Real>(
    scale: f64,
    mask: &[bool],
    logp: &[T],
    other_logp: &[T],
    grad: &mut [T],
    value_and_slope: impl Fn(f64, f64) -> (f64, f64),
) -> Result<TermStats, Error> {
    validate_length("logp", logp.len(), "mask", mask.len())?;
    validate_length("other_logp", other_logp.len(), "mask", mask.len())?;
    validate_length("grad", grad.len(), "mask", mask.len())?;
    let mut value = [0.0; BLOCK];
    let mut other = [0.0; BLOCK];
    let mut slope = [0.0; BLOCK];
    let mut total = 0.0;
    for_each_block(mask, |block| {
        block.load(logp, &mut value);
        block.load(other_logp, &mut other);
        for ((value, other), slope) in value.iter_mut().zip(&other).zip(&mut slope) {
            let (at_token, derivative) = value_and_slope(*value, *other);
            *value = at_token;
            *slope = scale * derivative;
        }
        block.mask(&mut value);
        total += sum(&value);
        if scale != 0.0 {
            block.mask(&mut slope);
            block.add(&slope, grad);
        }
    });
    let loss = if scale == 0.0 { 0.0 } else { scale * total };
    Ok(TermStats { loss, sum: total, tokens: trainable_tokens(mask), bounded: 0 })
}

/// The KL term of one response, a [`response_term`] of `kl_coefficient` times `weight`.
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
) -> Result<TermStats, Error> {
    validate_length("reference_logp", reference_logp.len(), "mask", mask.len())?;
    let estimator = settings.kl_estimator;
    let estimate = |logp, reference| estimator.value_and_slope(logp - reference);
    response_term(settings.kl_coefficient * weight, mask, logp, reference_logp, grad, estimate)
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
