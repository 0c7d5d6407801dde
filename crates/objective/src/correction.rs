//! Corrections for the mismatch between the engine that sampled and the learner before the update: a constant factor c
//! in front of each token's policy term. It never enters a weight or a denominator.

use crate::exp::exp;
use crate::names::{Refused, named};
use crate::tokens::{BLOCK, Lanes, TokenBlock, for_each_block, sum, sum_of_differences};
use crate::{Real, ResponseTokens};

const REFUSED: &[Refused] = &[
    (&["seq-mask-tis"], "NeMo-RL masks by the geometric mean of the ratios", "sequence-mask, by their product"),
    (&["token", "sequence"], "verl's level without what happens beyond the bounds", "LEVEL-truncate or LEVEL-mask"),
];

named! {
    /// The factor c made of the ratio `exp(old_logp - rollout_logp)`, of each token or multiplied over the response's
    /// trainable tokens: the ratio of the proximal policy to the behaviour policy of the decoupled objective (Hilton,
    /// Cobbe and Schulman, arXiv 2110.00641, eq. 5), bounded as each variant says.
    Correction, field "correction", refused REFUSED, {
        /// No factor: c is 1.
        None = "none" ["off"],
        /// Each token's ratio, at most `correction_high` (truncated importance sampling; TRL's `token_truncate`).
        TokenTruncate = "token-truncate" ["tis"],
        /// Each token's ratio inside `correction_low` to `correction_high`, 0 outside (IcePop; TRL's `token_mask`).
        TokenMask = "token-mask" ["icepop"],
        /// The response's ratio, at most `correction_high` (TRL's `sequence_truncate`).
        SequenceTruncate = "sequence-truncate",
        /// The response's ratio inside `correction_low` to `correction_high`, 0 outside (TRL's `sequence_mask`, which
        /// has no lower bound: `correction_low` = 0).
        SequenceMask = "sequence-mask",
    }
}

impl Correction {
    /// The factor as one line of text.
    pub(crate) fn formula(self, bounds: Bounds) -> String {
        let ratio = if self.is_sequence() {
            "the product of exp(old_logp - rollout_logp)"
        } else {
            "exp(old_logp - rollout_logp)"
        };
        if self.is_mask() {
            format!("{ratio}, 0 outside {} to {}", bounds.low, bounds.high)
        } else {
            format!("{ratio}, at most {}", bounds.high)
        }
    }

    /// Whether the ratio is the product over the response.
    const fn is_sequence(self) -> bool {
        matches!(self, Self::SequenceTruncate | Self::SequenceMask)
    }

    /// Whether the lower bound is used.
    const fn is_mask(self) -> bool {
        matches!(self, Self::TokenMask | Self::SequenceMask)
    }
}

/// The settings that bound the ratio.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Lower bound of the ratio, `correction_low`.
    pub(crate) low: f64,
    /// Upper bound of the ratio, `correction_high`.
    pub(crate) high: f64,
}

/// Beyond this the exponential overflows f64; every allowed bound is far below.
const MAX_CORRECTION_LOG_RATIO: f64 = 700.0;

/// c of a ratio, and whether a bound applied.
/// Comparisons are written so that a NaN ratio stays NaN.
#[inline(always)]
fn factor(ratio: f64, mask: bool, bounds: Bounds) -> (f64, bool) {
    let above = ratio > bounds.high;
    if mask {
        let outside = (ratio < bounds.low) | above;
        (if outside { 0.0 } else { ratio }, outside)
    } else {
        (if above { bounds.high } else { ratio }, above)
    }
}

/// The factors of one response.
#[derive(Clone, Copy)]
pub(crate) enum Factors<'a, T> {
    /// One factor for all tokens of the response.
    Constant { value: f64, bounded: bool },
    /// One for each token.
    PerToken { rollout_logp: &'a [T], mask: bool, bounds: Bounds },
}

impl<'a, T: Real> Factors<'a, T> {
    /// `rollout_logp` is present unless the correction is none.
    pub(crate) fn new(
        correction: Correction,
        bounds: Bounds,
        tokens: &ResponseTokens<'a, T>,
        rollout_logp: Option<&'a [T]>,
    ) -> Self {
        let Some(rollout_logp) = rollout_logp else { return Self::Constant { value: 1.0, bounded: false } };
        let mask = correction.is_mask();
        if !correction.is_sequence() {
            return Self::PerToken { rollout_logp, mask, bounds };
        }
        let log_ratio = sum_of_differences(tokens.mask, tokens.old_logp, rollout_logp, |x| x);
        let (value, bounded) = factor(libm::exp(saturate_correction(log_ratio)), mask, bounds);
        Self::Constant { value, bounded }
    }

    /// The factor of one trainable token, by the logarithm of its ratio, and whether a bound applied.
    pub(crate) fn of_token(&self, log_ratio: f64) -> (f64, bool) {
        match *self {
            Self::Constant { value, bounded } => (value, bounded),
            Self::PerToken { mask, bounds, .. } => factor(exp(saturate_correction(log_ratio)), mask, bounds),
        }
    }

    /// Writes the factors of a block, 0 for masked tokens, and counts them.
    #[inline]
    pub(crate) fn evaluate(&self, block: &TokenBlock, old_logp: &Lanes, out: &mut Lanes, sums: &mut FactorSums) {
        match *self {
            Self::Constant { value, .. } => {
                out.fill(value);
                block.mask(out);
            }
            Self::PerToken { rollout_logp, mask, bounds } => {
                let mut bounded = [0; BLOCK];
                block.load(rollout_logp, out);
                for i in 0..BLOCK {
                    let (value, acted) = factor(exp(saturate_correction(old_logp[i] - out[i])), mask, bounds);
                    (out[i], bounded[i]) = (value, u64::from(acted));
                }
                block.mask(out);
                for (sum, value) in sums.sum.iter_mut().zip(&*out) {
                    *sum += value;
                }
                sums.bounded += block.count(&bounded);
            }
        }
    }

    /// The sum of the factors over all trainable tokens, and the number of tokens to which a bound applied.
    pub(crate) fn totals(&self, sums: &FactorSums, trainable: usize) -> (f64, usize) {
        match *self {
            Self::Constant { value, bounded } => (value * trainable as f64, usize::from(bounded) * trainable),
            Self::PerToken { .. } => (sum(&sums.sum), sums.bounded),
        }
    }

    /// One factor for all tokens, the mean of theirs, for a term that is one value for the response: the sum of c phi
    /// over T tokens is then T times the mean of c times phi. Counts the factors of the tokens.
    pub(crate) fn averaged(&self, tokens: &ResponseTokens<'_, T>, trainable: usize, sums: &mut FactorSums) -> Self {
        if let Self::Constant { .. } = self {
            return *self;
        }
        let mut old_logp = [0.0; BLOCK];
        let mut factors = [0.0; BLOCK];
        for_each_block(tokens.mask, |block| {
            block.load(tokens.old_logp, &mut old_logp);
            self.evaluate(block, &old_logp, &mut factors, sums);
        });
        Self::Constant { value: self.totals(sums, trainable).0 / trainable.max(1) as f64, bounded: false }
    }
}

/// Sums of the factors of tokens, lane by lane.
pub(crate) struct FactorSums {
    sum: Lanes,
    bounded: usize,
}

impl FactorSums {
    pub(crate) fn new() -> Self {
        Self { sum: [0.0; BLOCK], bounded: 0 }
    }
}

#[inline(always)]
fn saturate_correction(log_ratio: f64) -> f64 {
    log_ratio.clamp(-MAX_CORRECTION_LOG_RATIO, MAX_CORRECTION_LOG_RATIO)
}
