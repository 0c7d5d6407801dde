//! The family of rules around `balanced`: how much a response's length counts inside its side, and how much the
//! positive side counts beside the negative one.
//!
//! For response i with advantage A_i and T_i trainable tokens on side s of a group,
//!
//! w_i = r_s M_s / (P G) T_i^(e - 1) / (sum over j in s of abs(A_j) T_j^e), M_s = sum over j in s of abs(A_j),
//!
//! with r_s = r on the positive side and 1 on the negative one. e = 1 gives the weights of `balanced` and e = 0 those
//! of `sequence`. For every e the sum of w abs(A) T over a side, its pull, is r_s M_s / (P G): e moves weight among the
//! responses of a side, r between the sides.
//!
//! Scaling the sides apart is in NSR and W-REINFORCE (r = 0 and r = 0.1, arXiv 2506.01347), AsymGRPO (arXiv 2604.04894)
//! and, by the balance of their gradients, FADE (arXiv 2607.01490).

use crate::Error;

/// The two numbers of the rule `sides`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SideDial {
    /// How lengths count inside a side, e: from 0, every response alike, to 1, every token alike.
    pub length_exponent: f64,
    /// What multiplies the weights of the positive side, r: at least 0.
    pub ratio: f64,
}

impl Default for SideDial {
    /// The dial where the rule is `balanced`.
    fn default() -> Self {
        Self { length_exponent: 1.0, ratio: 1.0 }
    }
}

impl SideDial {
    /// Checks both numbers.
    ///
    /// # Errors
    /// `length_exponent` outside 0 to 1; `side_ratio` below 0 or not finite.
    pub fn validate(self) -> Result<(), Error> {
        let Self { length_exponent, ratio } = self;
        if !(0.0..=1.0).contains(&length_exponent) {
            return Err(Error::refused("length_exponent", length_exponent, "0 to 1"));
        }
        if !(ratio.is_finite() && ratio >= 0.0) {
            return Err(Error::refused("side_ratio", ratio, "a finite number, at least 0"));
        }
        Ok(())
    }

    /// The group's part of the weight: `of_side` is M_s / (G sum of abs(A) T^e) of the response's side, `tokens` its
    /// length.
    pub(crate) fn weight(self, is_positive: bool, of_side: f64, tokens: usize) -> f64 {
        let ratio = if is_positive { self.ratio } else { 1.0 };
        ratio * (of_side * self.length_factor(tokens))
    }

    /// T^(e - 1) for at least one token, with the same bits on every machine.
    pub(crate) fn length_factor(self, tokens: usize) -> f64 {
        libm::pow(tokens as f64, self.length_exponent - 1.0)
    }
}
