//! Tokens in blocks of a fixed size on the stack: masked tokens become zeros on the way in, so that whatever stood there
//! (NaN of a padded position, say) is never computed with, and every loop over a block has a constant length and no
//! branch, which compilers turn into vector instructions.

use crate::Real;

/// Tokens in a block.
pub(crate) const LANES: usize = 64;

/// One number for each token of a block.
pub(crate) type Lanes = [f64; LANES];

/// For each token of a block: all bits where it is trainable, none elsewhere and behind the end.
pub(crate) type Keep = [u64; LANES];

/// The tokens to keep.
#[inline]
pub(crate) fn load_keep(mask: &[bool], keep: &mut Keep) {
    for (keep, &trainable) in keep.iter_mut().zip(mask) {
        *keep = u64::from(trainable).wrapping_neg();
    }
    if let Some(tail) = keep.get_mut(mask.len()..) {
        tail.fill(0);
    }
}

/// The value where the token is kept, 0 elsewhere.
#[inline(always)]
pub(crate) fn kept(value: f64, keep: u64) -> f64 {
    f64::from_bits(value.to_bits() & keep)
}

/// The values of kept tokens, 0 for the others and behind the end.
#[inline]
pub(crate) fn load<T: Real>(keep: &Keep, values: &[T], out: &mut Lanes) {
    for ((out, &keep), &value) in out.iter_mut().zip(keep).zip(values) {
        *out = kept(value.to_f64(), keep);
    }
    clear_tail(values.len(), out);
}

/// `a - b` for kept tokens, 0 for the others and behind the end.
#[inline]
pub(crate) fn load_difference<T: Real>(keep: &Keep, a: &[T], b: &[T], out: &mut Lanes) {
    for (((out, &keep), &a), &b) in out.iter_mut().zip(keep).zip(a).zip(b) {
        *out = kept(a.to_f64() - b.to_f64(), keep);
    }
    clear_tail(a.len(), out);
}

fn clear_tail(length: usize, out: &mut Lanes) {
    if let Some(tail) = out.get_mut(length..) {
        tail.fill(0.0);
    }
}

/// The sum over a block, in an order that vectorises and is always the same.
#[inline]
pub(crate) fn sum(values: &Lanes) -> f64 {
    let mut partial = [0.0; 8];
    for block in values.chunks_exact(8) {
        for (partial, value) in partial.iter_mut().zip(block) {
            *partial += value;
        }
    }
    partial.iter().sum()
}

/// x, or the bound that it is beyond; NaN stays NaN, and bounds in the wrong order do not panic.
#[inline(always)]
pub(crate) fn bound(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// 1 where the condition holds, 0 elsewhere.
#[inline(always)]
pub(crate) fn one_if(condition: bool) -> f64 {
    if condition { 1.0 } else { 0.0 }
}

/// The number of trainable tokens of a response. mask: one flag for each token.
#[must_use]
pub fn trainable_tokens(mask: &[bool]) -> usize {
    // Counting in bytes, 255 at a time, keeps sixteen counters in a register.
    mask.chunks(255).map(|part| usize::from(part.iter().map(|&m| u8::from(m)).sum::<u8>())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_tokens_and_the_tail_become_zero_whatever_stood_there() {
        let (mut keep, mut out) = ([u64::MAX; LANES], [f64::NAN; LANES]);
        load_keep(&[true, false, true], &mut keep);
        load_difference(&keep, &[1.0, f64::NAN, 3.0], &[0.5, f64::INFINITY, 1.0], &mut out);
        assert_eq!(out[..3], [0.5, 0.0, 2.0]);
        assert!(out[3..].iter().all(|&x| x == 0.0));
    }

    #[test]
    fn counts_more_tokens_than_a_byte_holds() {
        assert_eq!(trainable_tokens(&vec![true; 8192]), 8192);
        assert_eq!(trainable_tokens(&[]), 0);
        assert_eq!(trainable_tokens(&[true, false, true]), 2);
    }
}
