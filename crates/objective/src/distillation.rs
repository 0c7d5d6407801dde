//! On-policy distillation: the reverse KL from the policy to a teacher, estimated at the tokens that the policy sampled
//! (Agarwal et al., arXiv 2306.13649; Thinking Machines, "On-Policy Distillation", 2025).
//!
//! With d = old_logp - teacher_logp at a sampled token, a constant for the gradient, the term of a token is
//! w s rho c: s is d with at most a bound in magnitude, plus what follows it times a discount, rho = exp(logp - old_logp)
//! without a clip, and c the factor of the correction. At old_logp = logp its expected gradient is that of the KL at the
//! visited prefixes with a discount of 0, and that of the KL of whole responses with a discount of 1.

use evenkeel_errors::FieldError;

use crate::correction::{FactorSums, Factors};
use crate::error::{Error, validate_length};
use crate::exp::exp;
use crate::log_ratio::{MAX_RATIO, saturate};
use crate::loss::rollout_logp;
use crate::phi::bound;
use crate::tokens::{BLOCK, for_each_block, sum};
use crate::{Real, ResponseTokens, Settings, TermStats};

/// What decides the signal of a token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distillation {
    /// The largest magnitude of d, in nats, above 0.
    pub bound: f64,
    /// What the next token's signal counts in a token's own, 0 to 1.
    pub discount: f64,
}

impl Default for Distillation {
    fn default() -> Self {
        Self { bound: 10.0, discount: 0.0 }
    }
}

impl Distillation {
    /// Refuses numbers out of range.
    ///
    /// # Errors
    /// The field, its value and what is allowed.
    pub fn validate(&self) -> Result<(), FieldError> {
        let Self { bound, discount } = *self;
        FieldError::ensure(bound.is_finite() && bound > 0.0, "bound", bound, "a finite number above 0")?;
        FieldError::ensure((0.0..=1.0).contains(&discount), "discount", discount, "0 to 1")
    }
}

/// The distillation term of one response: its loss, and its gradient *added* to `grad`.
///
/// `teacher_logp` and `grad` have one element for each token; values at masked tokens have no effect, and a discount
/// reaches over them as if they were absent. `weight` is that of each token: 1 over the trainable tokens of the
/// mini-batch, times the coefficient. `old_logp` has to be the policy's before the step's first update, at the sampling
/// temperature. The statistics have the mean of d before the bound, an estimate of the KL, and the number of bounded
/// tokens.
///
/// # Errors
/// Slices of different lengths; a correction without `rollout_logp`.
pub fn response_distillation<T: Real>(
    settings: &Settings,
    distillation: Distillation,
    weight: f64,
    tokens: &ResponseTokens<'_, T>,
    teacher_logp: &[T],
    grad: &mut [T],
) -> Result<TermStats, Error> {
    let mask = tokens.mask;
    tokens.validate_lengths()?;
    validate_length("teacher_logp", teacher_logp.len(), "mask", mask.len())?;
    validate_length("grad", grad.len(), "mask", mask.len())?;
    let factors =
        Factors::new(settings.correction, settings.correction_bounds(), tokens, rollout_logp(settings, tokens)?);
    let mut stats = TermStats::default();
    let signal = signals(distillation, tokens, teacher_logp, &mut stats);

    let mut logp = [0.0; BLOCK];
    let mut old_logp = [0.0; BLOCK];
    let mut factor = [0.0; BLOCK];
    let mut value = [0.0; BLOCK];
    let mut slope = [0.0; BLOCK];
    let mut factor_sums = FactorSums::new();
    let mut total = 0.0;
    for_each_block(mask, |block| {
        block.load(tokens.logp, &mut logp);
        block.load(tokens.old_logp, &mut old_logp);
        block.load(&signal, &mut value);
        factors.evaluate(block, &old_logp, &mut factor, &mut factor_sums);
        for i in 0..BLOCK {
            let ratio = exp(saturate(logp[i] - old_logp[i]));
            value[i] *= ratio * factor[i];
            slope[i] = if ratio > MAX_RATIO { 0.0 } else { weight * value[i] };
        }
        block.mask(&mut value);
        total += sum(&value);
        block.mask(&mut slope);
        block.add(&slope, grad);
    });
    stats.loss = weight * total;
    Ok(stats)
}

/// The signal of each token, 0 where it is masked; counts tokens, bounded ones, and the sum of d.
fn signals<T: Real>(
    distillation: Distillation,
    tokens: &ResponseTokens<'_, T>,
    teacher_logp: &[T],
    stats: &mut TermStats,
) -> Vec<f64> {
    let most = distillation.bound;
    let mut signal = vec![0.0; tokens.mask.len()];
    let mut distance = [0.0; BLOCK];
    let mut teacher = [0.0; BLOCK];
    let mut bounded = [0; BLOCK];
    for_each_block(tokens.mask, |block| {
        block.load(tokens.old_logp, &mut distance);
        block.load(teacher_logp, &mut teacher);
        for i in 0..BLOCK {
            distance[i] -= teacher[i];
            bounded[i] = u64::from(distance[i].abs() > most);
        }
        stats.sum += sum(&distance);
        stats.bounded += block.count(&bounded);
        distance.iter_mut().for_each(|distance| *distance = bound(*distance, -most, most));
        block.store(&distance, &mut signal);
    });
    stats.tokens = tokens.trainable();
    if distillation.discount != 0.0 {
        let mut later = 0.0;
        for (signal, _) in signal.iter_mut().zip(tokens.mask).rev().filter(|(_, trainable)| **trainable) {
            later = *signal + distillation.discount * later;
            *signal = later;
        }
    }
    signal
}
