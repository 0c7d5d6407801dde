//! Corrections for the gap between the engine's policy that sampled and the learner's before the update: a constant
//! factor c in front of each token's policy term. It never enters a weight or a denominator.

use crate::exp::exp;
use crate::lanes::{Keep, LANES, Lanes, bound, kept, load_difference, load_keep, one_if, sum};
use crate::names::{Refused, named};
use crate::{Real, ResponseTokens, Settings};

const REFUSED: &[Refused] = &[
    (&["seq-mask-tis"], "NeMo-RL masks by the geometric mean of the ratios", "sequence-mask, by their product"),
    (&["token", "sequence"], "verl's level without what happens beyond the bounds", "LEVEL-truncate or LEVEL-mask"),
];

named! {
    /// What becomes of `exp(old_logp - behaviour_logp)`, of each token or multiplied over the response's trainable
    /// tokens, in front of the policy term.
    Correction, field "correction", refused REFUSED, {
        /// No factor.
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
    /// Whether the ratio is the product over the response.
    pub(crate) const fn is_sequence(self) -> bool {
        matches!(self, Self::SequenceTruncate | Self::SequenceMask)
    }

    /// Whether the lower bound is used.
    pub(crate) const fn is_mask(self) -> bool {
        matches!(self, Self::TokenMask | Self::SequenceMask)
    }
}

/// Beyond this the exponential leaves f64; every allowed bound lies far inside it.
const MAX_GAP: f64 = 700.0;

/// The factors of one response.
#[derive(Clone, Copy)]
pub(crate) enum Factor<'a, T> {
    /// The same for every token; whether a bound acted on it.
    Constant { value: f64, bounded: bool },
    /// One for each token, from the slice of behaviour log-probabilities.
    Token { behaviour_logp: &'a [T], mask_outside: bool, low: f64, high: f64 },
}

impl<'a, T: Real> Factor<'a, T> {
    /// `behaviour_logp` is present unless the correction is none.
    pub(crate) fn new(settings: &Settings, tokens: &ResponseTokens<'a, T>, behaviour_logp: Option<&'a [T]>) -> Self {
        let Some(behaviour_logp) = behaviour_logp else { return Self::Constant { value: 1.0, bounded: false } };
        let (low, high) = (settings.correction_low, settings.correction_high);
        let mask_outside = settings.correction.is_mask();
        if !settings.correction.is_sequence() {
            return Self::Token { behaviour_logp, mask_outside, low, high };
        }
        let gap = tokens.sum_of_differences(tokens.old_logp, behaviour_logp, |gap| gap);
        let (value, bounded) = restrict(libm::exp(gap.clamp(-MAX_GAP, MAX_GAP)), mask_outside, low, high);
        Self::Constant { value, bounded: bounded > 0.0 }
    }

    /// Writes the factors of the block that starts at a token, 0 where the token is not kept, and counts them.
    #[inline]
    pub(crate) fn load(
        &self,
        tokens: &ResponseTokens<'_, T>,
        start: usize,
        keep: &Keep,
        out: &mut Lanes,
        count: &mut FactorCount,
    ) {
        match *self {
            Self::Constant { value, .. } => {
                for (out, &keep) in out.iter_mut().zip(keep) {
                    *out = kept(value, keep);
                }
            }
            Self::Token { behaviour_logp, mask_outside, low, high } => {
                let block = tokens.block(start);
                load_difference(keep, &tokens.old_logp[block.clone()], &behaviour_logp[block], out);
                for i in 0..LANES {
                    let (factor, bounded) = restrict(exp(out[i].clamp(-MAX_GAP, MAX_GAP)), mask_outside, low, high);
                    out[i] = kept(factor, keep[i]);
                    count.sum[i] += out[i];
                    count.bounded[i] += kept(bounded, keep[i]);
                }
            }
        }
    }

    /// The sum of the factors over all trainable tokens, and the number of tokens that a bound acted on.
    pub(crate) fn totals(&self, count: &FactorCount, trainable: usize) -> (f64, f64) {
        match *self {
            Self::Constant { value, bounded } => (value * trainable as f64, one_if(bounded) * trainable as f64),
            Self::Token { .. } => (sum(&count.sum), sum(&count.bounded)),
        }
    }

    /// The same factor for every token that has the mean of these: what a term that is one value for the response needs.
    /// Counts them on the way.
    pub(crate) fn spread(&self, tokens: &ResponseTokens<'_, T>, trainable: usize, count: &mut FactorCount) -> Self {
        if let Self::Constant { .. } = self {
            return *self;
        }
        let (mut keep, mut factors) = ([0; LANES], [0.0; LANES]);
        for start in tokens.blocks() {
            load_keep(&tokens.mask[tokens.block(start)], &mut keep);
            self.load(tokens, start, &keep, &mut factors, count);
        }
        Self::Constant { value: self.totals(count, trainable).0 / trainable.max(1) as f64, bounded: false }
    }
}

/// Sums of the factors of tokens, lane by lane.
pub(crate) struct FactorCount {
    sum: Lanes,
    bounded: Lanes,
}

impl FactorCount {
    pub(crate) fn new() -> Self {
        Self { sum: [0.0; LANES], bounded: [0.0; LANES] }
    }
}

/// A ratio inside its bounds, and 1 if they acted. Comparisons are written so that a NaN ratio stays NaN.
#[inline(always)]
fn restrict(ratio: f64, mask_outside: bool, low: f64, high: f64) -> (f64, f64) {
    if mask_outside {
        let outside = (ratio < low) | (ratio > high);
        (if outside { 0.0 } else { ratio }, one_if(outside))
    } else {
        (bound(ratio, 0.0, high), one_if(ratio > high))
    }
}
