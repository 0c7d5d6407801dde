//! The KL term of a response, and the slope of the entropy term. Both use the weights of
//! [`regularizer_weights`](crate::regularizer_weights), whatever the aggregation.

use crate::error::{Error, validate_length};
use crate::tokens::{BLOCK, for_each_block, sum, trainable_tokens};
use crate::{Real, Settings};

/// Sums of a KL term over trainable tokens; they add up over responses and micro-batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KlStats {
    /// The part of the loss: `kl_coefficient` times the weighted sum.
    pub loss: f64,
    /// The sum of the estimates; divided by `tokens` it is the logged mean KL.
    pub kl_sum: f64,
    /// Trainable tokens.
    pub tokens: usize,
}

impl KlStats {
    /// Adds the sums of another part of the mini-batch.
    pub fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        self.kl_sum += other.kl_sum;
        self.tokens += other.tokens;
    }

    /// The mean estimate; absent if there are no tokens.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.tokens > 0).then(|| self.kl_sum / self.tokens as f64)
    }
}

/// The KL term of one response: its loss, and its gradient *added* to `grad`.
///
/// `mask`, `logp`, `reference_logp` and `grad` have one element for each token; values at masked tokens have no effect.
/// `weight` is the response's regularizer weight. With `kl_coefficient` 0 the estimate is measured and `grad`
/// unchanged.
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
    validate_length("logp", logp.len(), "mask", mask.len())?;
    validate_length("reference_logp", reference_logp.len(), "mask", mask.len())?;
    validate_length("grad", grad.len(), "mask", mask.len())?;
    let estimator = settings.kl_estimator;
    let scale = settings.kl_coefficient * weight;
    let mut value = [0.0; BLOCK];
    let mut reference = [0.0; BLOCK];
    let mut slope = [0.0; BLOCK];
    let mut kl_sum = 0.0;
    for_each_block(mask, |block| {
        block.load(logp, &mut value);
        block.load(reference_logp, &mut reference);
        // Every estimate is 0 at d = 0, so that only slopes need the mask.
        for ((value, reference), slope) in value.iter_mut().zip(&reference).zip(&mut slope) {
            let (estimate, derivative) = estimator.value_and_slope(*value - reference);
            (*value, *slope) = (estimate, scale * derivative);
        }
        kl_sum += sum(&value);
        if scale != 0.0 {
            block.mask(&mut slope);
            block.add(&slope, grad);
        }
    });
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
