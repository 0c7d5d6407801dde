//! The tokens of a response, and the only code that reads masks. Tokens are loaded in blocks of a fixed size on the
//! stack, with 0 for masked tokens, so that NaN at a padded position has no effect. The arithmetic between loading and
//! storing has no mask and no branch, and its loops of constant length vectorise.

use std::ops::Range;

use crate::Real;
use crate::error::{Error, validate_length};

/// Tokens in a block.
pub(crate) const BLOCK: usize = 64;

/// One number for each token of a block.
pub(crate) type Lanes = [f64; BLOCK];

/// 0 or 1 for each token of a block.
pub(crate) type Flags = [u64; BLOCK];

/// The tokens of one response. Every slice has one element for each token, trainable or not; values at masked tokens
/// have no effect.
#[derive(Debug, Clone, Copy)]
pub struct ResponseTokens<'a, T> {
    /// Whether a token is trainable: sampled by the policy, and not padding, tool output or injected text.
    pub mask: &'a [bool],
    /// Natural log-probabilities under the weights being trained.
    pub logp: &'a [T],
    /// Natural log-probabilities that the ratio is taken against.
    pub old_logp: &'a [T],
    /// Natural log-probabilities that the engine reported; required if a correction is set.
    pub rollout_logp: Option<&'a [T]>,
}

impl<T: Real> ResponseTokens<'_, T> {
    /// The number of trainable tokens, T in the formulas.
    #[must_use]
    pub fn trainable(&self) -> usize {
        trainable_tokens(self.mask)
    }

    /// Refuses slices of different lengths.
    pub(crate) fn validate_lengths(&self) -> Result<(), Error> {
        let length = self.mask.len();
        validate_length("logp", self.logp.len(), "mask", length)?;
        validate_length("old_logp", self.old_logp.len(), "mask", length)?;
        self.rollout_logp.map_or(Ok(()), |logp| validate_length("rollout_logp", logp.len(), "mask", length))
    }
}

/// The number of trainable tokens of a response; `mask` has one flag for each token.
#[must_use]
pub fn trainable_tokens(mask: &[bool]) -> usize {
    // Counting in bytes, 255 at a time, keeps sixteen counters in a register.
    mask.chunks(255).map(|part| usize::from(part.iter().map(|&m| u8::from(m)).sum::<u8>())).sum()
}

/// Up to [`BLOCK`] neighbouring tokens and which of them are trainable.
pub(crate) struct TokenBlock {
    range: Range<usize>,
    /// All bits set for a trainable token, none for others and after the last token.
    keep: [u64; BLOCK],
}

impl TokenBlock {
    /// The values of trainable tokens, 0 elsewhere.
    #[inline]
    pub(crate) fn load<T: Real>(&self, values: &[T], out: &mut Lanes) {
        let values = &values[self.range.clone()];
        for (out, &value) in out.iter_mut().zip(values) {
            *out = value.to_f64();
        }
        self.mask(out);
    }

    /// Sets the lanes of masked tokens, and those after the last token, to 0.
    #[inline]
    pub(crate) fn mask(&self, lanes: &mut Lanes) {
        for (lane, keep) in lanes.iter_mut().zip(&self.keep) {
            *lane = f64::from_bits(lane.to_bits() & keep);
        }
    }

    /// The number of trainable tokens whose flag, 0 or 1, is set.
    #[inline]
    pub(crate) fn count(&self, flags: &Flags) -> usize {
        flags.iter().zip(&self.keep).map(|(flag, keep)| (flag & keep) as usize).sum()
    }

    /// Writes one value for each token.
    #[inline]
    pub(crate) fn store<T: Real>(&self, lanes: &Lanes, out: &mut [T]) {
        for (out, &lane) in out[self.range.clone()].iter_mut().zip(lanes) {
            *out = T::from_f64(lane);
        }
    }

    /// Adds one value to that of each token.
    #[inline]
    pub(crate) fn add<T: Real>(&self, lanes: &Lanes, out: &mut [T]) {
        for (out, &lane) in out[self.range.clone()].iter_mut().zip(lanes) {
            *out = T::from_f64(out.to_f64() + lane);
        }
    }
}

/// Visits all tokens of a response, block by block.
#[inline(always)]
pub(crate) fn for_each_block(mask: &[bool], mut visit: impl FnMut(&TokenBlock)) {
    for start in (0..mask.len()).step_by(BLOCK) {
        let range = start..mask.len().min(start + BLOCK);
        let mut keep = [0; BLOCK];
        for (keep, &trainable) in keep.iter_mut().zip(&mask[range.clone()]) {
            *keep = u64::from(trainable).wrapping_neg();
        }
        visit(&TokenBlock { range, keep });
    }
}

/// The sum over trainable tokens of `map(a - b)`; `map` takes 0 to 0.
pub(crate) fn sum_of_differences<T: Real>(mask: &[bool], a: &[T], b: &[T], map: impl Fn(f64) -> f64) -> f64 {
    let mut left = [0.0; BLOCK];
    let mut right = [0.0; BLOCK];
    let mut total = 0.0;
    for_each_block(mask, |block| {
        block.load(a, &mut left);
        block.load(b, &mut right);
        for (left, right) in left.iter_mut().zip(&right) {
            *left = map(*left - right);
        }
        total += sum(&left);
    });
    total
}

/// The sum over a block, in an order that vectorises and is always the same.
#[inline]
pub(crate) fn sum(values: &Lanes) -> f64 {
    let mut partial = [0.0; 8];
    for eight in values.chunks_exact(8) {
        for (partial, value) in partial.iter_mut().zip(eight) {
            *partial += value;
        }
    }
    partial.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_tokens_and_lanes_behind_the_last_token_become_zero_whatever_stood_there() {
        let mask = [true, false, true];
        let values = [1.0, f64::NAN, 3.0];
        let mut lanes = [f64::NAN; BLOCK];
        for_each_block(&mask, |block| {
            block.load(&values, &mut lanes);
            assert_eq!(block.count(&[1; BLOCK]), 2);
        });
        assert_eq!(lanes[..3], [1.0, 0.0, 3.0]);
        assert!(lanes[3..].iter().all(|&lane| lane == 0.0));
    }

    #[test]
    fn blocks_cover_every_token_once() {
        let mut out = vec![0.0; 3 * BLOCK + 5];
        for_each_block(&vec![true; out.len()], |block| block.add(&[1.0; BLOCK], &mut out));
        assert!(out.iter().all(|&visits| visits == 1.0));
    }

    #[test]
    fn counts_more_tokens_than_a_byte_holds() {
        assert_eq!(trainable_tokens(&vec![true; 8192]), 8192);
        assert_eq!(trainable_tokens(&[]), 0);
        assert_eq!(trainable_tokens(&[true, false, true]), 2);
    }
}
