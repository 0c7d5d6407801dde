//! The policy loss of one response, minus the sum of w c phi, and its gradient with respect to each log-probability.

use crate::correction::{FactorSums, Factors};
use crate::error::{Error, validate_length};
use crate::log_ratio::saturate;
use crate::phi::Terms;
use crate::policy::Term;
use crate::tokens::{BLOCK, for_each_block, sum};
use crate::{Correction, Real, ResponseTokens, Settings};

/// Sums over trainable tokens. They add up over responses and micro-batches, in any split; logged fractions and means
/// are ratios of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PolicyStats {
    /// The part of the loss: minus the sum of w c phi.
    pub loss: f64,
    /// Number of trainable tokens.
    pub tokens: usize,
    /// Clipped tokens as counted by verl's `pg_clipfrac`; each policy term says which those are (`policy.rs`).
    pub clipped: usize,
    /// Tokens at a second bound as counted by verl's `pg_clipfrac_lower`; 0 for terms without one.
    pub clipped_lower: usize,
    /// Sum of `old_logp - logp`, each saturated at `MAX_LOG_RATIO`: divided by `tokens` it is verl's `ppo_kl`.
    pub negative_log_ratio: f64,
    /// Sum of the correction's factors c; equal to `tokens` without a correction.
    pub correction_sum: f64,
    /// Tokens whose factor was capped or set to 0 by a bound of the correction.
    pub correction_bounded: usize,
}

impl PolicyStats {
    /// Adds the sums of another part of the mini-batch.
    pub fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        self.tokens += other.tokens;
        self.clipped += other.clipped;
        self.clipped_lower += other.clipped_lower;
        self.negative_log_ratio += other.negative_log_ratio;
        self.correction_sum += other.correction_sum;
        self.correction_bounded += other.correction_bounded;
    }

    /// verl's `pg_clipfrac` over all trainable tokens; absent if there are none.
    #[must_use]
    pub fn clip_fraction(&self) -> Option<f64> {
        self.per_token(self.clipped as f64)
    }

    /// verl's `pg_clipfrac_lower`; absent if there are no tokens.
    #[must_use]
    pub fn clip_fraction_lower(&self) -> Option<f64> {
        self.per_token(self.clipped_lower as f64)
    }

    /// verl's `ppo_kl`, the mean of `old_logp - logp`; absent if there are no tokens.
    #[must_use]
    pub fn ppo_kl(&self) -> Option<f64> {
        self.per_token(self.negative_log_ratio)
    }

    /// The mean factor of the correction; absent if there are no tokens.
    #[must_use]
    pub fn correction_mean(&self) -> Option<f64> {
        self.per_token(self.correction_sum)
    }

    /// The fraction of tokens to which a bound of the correction applied; absent if there are no tokens.
    #[must_use]
    pub fn correction_fraction(&self) -> Option<f64> {
        self.per_token(self.correction_bounded as f64)
    }

    fn per_token(&self, sum: f64) -> Option<f64> {
        (self.tokens > 0).then(|| sum / self.tokens as f64)
    }
}

/// The loss of one response and d loss / d logp.
///
/// `weight` is the weight of each of its tokens, with or without the mini-batch normalizer: loss and gradient are
/// linear in it. `grad` has one element for each token and is overwritten: with 0 at tokens that are not trainable, and
/// everywhere if `advantage` or `weight` is 0. The statistics include such a response, except for clipped tokens, since
/// nothing is clipped without a gradient.
///
/// Settings must have passed [`Settings::validate`], and external input [`ResponseTokens::validate`]; unchecked input
/// may give NaN or infinities, but never a panic.
///
/// # Errors
/// Slices of different lengths; a correction without `rollout_logp`.
pub fn response_loss<T: Real>(
    settings: &Settings,
    advantage: f64,
    weight: f64,
    tokens: &ResponseTokens<'_, T>,
    grad: &mut [T],
) -> Result<PolicyStats, Error> {
    tokens.validate_lengths()?;
    validate_length("grad", grad.len(), "mask", tokens.mask.len())?;
    let rollout_logp = rollout_logp(settings, tokens)?;
    let trainable = tokens.trainable();
    // The terms are phi / A, so every term and slope is multiplied by w A.
    let weighted_advantage = weight * advantage;
    let term = (weighted_advantage != 0.0 && trainable > 0)
        .then(|| Term::new(settings.policy, settings.clip(), advantage, tokens));
    if term.is_none() {
        grad.fill(T::default());
    }
    let of_tokens = Factors::new(settings.correction, settings.correction_bounds(), tokens, rollout_logp);
    let mut factor_sums = FactorSums::new();
    let factors = match term {
        Some(term) if term.is_response_level() => of_tokens.averaged(tokens, trainable, &mut factor_sums),
        _ => of_tokens,
    };

    let mut logp = [0.0; BLOCK];
    let mut old_logp = [0.0; BLOCK];
    let mut log_ratio = [0.0; BLOCK];
    let mut factor = [0.0; BLOCK];
    let mut slope = [0.0; BLOCK];
    let mut terms = Terms::new();
    let mut objective = [0.0; BLOCK];
    let mut log_ratio_sum = [0.0; BLOCK];
    let mut clipped = 0;
    let mut clipped_lower = 0;
    for_each_block(tokens.mask, |block| {
        block.load(tokens.logp, &mut logp);
        block.load(tokens.old_logp, &mut old_logp);
        for i in 0..BLOCK {
            log_ratio[i] = saturate(logp[i] - old_logp[i]);
            log_ratio_sum[i] += log_ratio[i];
        }
        factors.evaluate(block, &old_logp, &mut factor, &mut factor_sums);
        let Some(term) = &term else { return };
        term.evaluate(&log_ratio, &logp, &old_logp, &mut terms);
        for i in 0..BLOCK {
            objective[i] += factor[i] * terms.value[i];
            slope[i] = -weighted_advantage * (factor[i] * terms.slope[i]);
        }
        clipped += block.count(&terms.clipped);
        clipped_lower += block.count(&terms.clipped_lower);
        block.store(&slope, grad);
    });
    let (correction_sum, correction_bounded) = of_tokens.totals(&factor_sums, trainable);
    Ok(PolicyStats {
        loss: if term.is_some() { -weighted_advantage * sum(&objective) } else { 0.0 },
        tokens: trainable,
        clipped,
        clipped_lower,
        negative_log_ratio: -sum(&log_ratio_sum),
        correction_sum,
        correction_bounded,
    })
}

/// The log-probabilities that the correction compares with; none without a correction.
///
/// # Errors
/// A correction without them.
pub(crate) fn rollout_logp<'a, T>(
    settings: &Settings,
    tokens: &ResponseTokens<'a, T>,
) -> Result<Option<&'a [T]>, Error> {
    if settings.correction == Correction::None {
        return Ok(None);
    }
    tokens.rollout_logp.map(Some).ok_or_else(|| {
        let value = format!("absent with correction = {}", settings.correction);
        Error::refused("rollout_logp", value, "one log-probability for each token")
    })
}
