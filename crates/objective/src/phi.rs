//! The value of a policy term and its slope: of one token, and of a block of them.

use crate::tokens::{BLOCK, Flags, Lanes};

/// A term and its derivative at one token.
#[derive(Clone, Copy)]
pub(crate) struct Phi {
    /// Value of the term by advantage, phi / A.
    pub(crate) value: f64,
    /// (d phi / d logp) / A.
    pub(crate) slope: f64,
    /// Counted in verl's `pg_clipfrac`.
    pub(crate) clipped: bool,
    /// Counted in verl's `pg_clipfrac_lower`.
    pub(crate) clipped_lower: bool,
}

/// The terms of a block of tokens.
pub(crate) struct Terms {
    /// Values of the term by advantage, phi / A.
    pub(crate) value: Lanes,
    /// (d phi / d logp) / A.
    pub(crate) slope: Lanes,
    /// Tokens counted in verl's `pg_clipfrac`.
    pub(crate) clipped: Flags,
    /// Tokens counted in verl's `pg_clipfrac_lower`.
    pub(crate) clipped_lower: Flags,
}

impl Terms {
    pub(crate) fn new() -> Self {
        Self { value: [0.0; BLOCK], slope: [0.0; BLOCK], clipped: [0; BLOCK], clipped_lower: [0; BLOCK] }
    }

    /// The loop over tokens, compiled once for each term and sign, so that it has no branch and vectorises.
    #[inline(always)]
    pub(crate) fn fill(&mut self, positive: bool, phi: impl Fn(usize, bool) -> Phi) {
        if positive {
            (0..BLOCK).for_each(|i| self.set(i, phi(i, true)));
        } else {
            (0..BLOCK).for_each(|i| self.set(i, phi(i, false)));
        }
    }

    #[inline(always)]
    fn set(&mut self, i: usize, phi: Phi) {
        (self.value[i], self.slope[i]) = (phi.value, phi.slope);
        (self.clipped[i], self.clipped_lower[i]) = (u64::from(phi.clipped), u64::from(phi.clipped_lower));
    }
}

/// x, or the bound that it exceeds; NaN stays NaN, and bounds in the wrong order do not panic.
#[inline(always)]
pub(crate) fn bound(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// x within the bounds, 0 outside of them; NaN stays NaN.
#[inline(always)]
pub(crate) fn zero_outside(x: f64, low: f64, high: f64) -> f64 {
    if (x < low) | (x > high) { 0.0 } else { x }
}
