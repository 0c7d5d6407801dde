//! The sign-flip test: are differences centred at zero?
//!
//! If two arms are alike, a pair's difference is as likely as its negative. So the observed mean is compared with the
//! means under all 2^n choices of signs (Fisher 1935): p is the share of them that are at least as far from zero.
//! Nothing else is assumed, and with n pairs p cannot be below 2 / 2^n: 0.0625 for 5 pairs, 0.0078 for 8.

use evenkeel_seeds::{RngCore, Stream};
use serde::{Deserialize, Serialize};

use crate::Sample;

/// The most pairs whose sign choices are all tried: a million.
const MAX_EXACT: usize = 20;
/// Random choices of signs for more pairs.
const RANDOM_FLIPS: u64 = 99_999;

/// The result of a sign-flip test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SignFlip {
    /// The two-sided p-value.
    pub p: f64,
    /// The choices of signs that were tried: 2^n for up to 20 pairs, else 99,999 random ones and the observed one.
    pub flips: u64,
    /// Whether all choices of signs were tried.
    pub exact: bool,
}

/// The smallest p-value that this many pairs can reach: 2 / 2^n.
pub fn smallest_p(pairs: usize) -> f64 {
    libm::pow(0.5, pairs as f64 - 1.0).min(1.0)
}

impl Sample {
    /// The two-sided sign-flip test of the mean against 0. `seed` matters for more than 20 values only.
    pub fn sign_flip(&self, seed: u64) -> SignFlip {
        let exact = self.values().len() <= MAX_EXACT;
        let (extreme, flips) = if exact { self.all_flips() } else { self.random_flips(seed) };
        SignFlip { p: extreme as f64 / flips as f64, flips, exact }
    }

    /// A sum at least as far from zero as the observed one; sums of the same values in another order may differ by
    /// rounding.
    fn is_extreme(&self) -> impl Fn(f64) -> bool {
        let least = self.values().iter().sum::<f64>().abs() - self.tolerance();
        move |sum: f64| sum.abs() >= least
    }

    fn all_flips(&self) -> (u64, u64) {
        // The sums of either half of the values under all their signs: a thousand each, and a million pairs of them.
        let (front, back) = self.values().split_at(self.values().len() / 2);
        let front = signed_sums(front);
        let back = signed_sums(back);
        let is_extreme = self.is_extreme();
        let count = |one: f64| back.iter().filter(|other| is_extreme(one + **other)).count() as u64;
        (front.iter().map(|one| count(*one)).sum(), (front.len() * back.len()) as u64)
    }

    fn random_flips(&self, seed: u64) -> (u64, u64) {
        let mut rng = evenkeel_seeds::rng(seed, Stream::SignFlips);
        let is_extreme = self.is_extreme();
        let mut flipped = || {
            let words = self.values().chunks(64).map(|values| (rng.next_u64(), values));
            words.map(|(signs, values)| signed_sum(values, signs)).sum::<f64>()
        };
        let extreme = (0..RANDOM_FLIPS).filter(|_| is_extreme(flipped())).count() as u64;
        // The observed signs are one of the choices: without them p could be 0, which no test of finitely many flips
        // can show.
        (extreme + 1, RANDOM_FLIPS + 1)
    }
}

fn signed_sums(values: &[f64]) -> Vec<f64> {
    (0..1_u64 << values.len()).map(|signs| signed_sum(values, signs)).collect()
}

/// The sum with the signs that the lowest bits give.
fn signed_sum(values: &[f64], signs: u64) -> f64 {
    values.iter().enumerate().map(|(at, value)| if signs >> at & 1 == 0 { *value } else { -value }).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::references::{numbers, section};

    fn p(values: &[f64]) -> f64 {
        Sample::new("x", values.to_vec()).unwrap().sign_flip(0).p
    }

    #[test]
    fn exact_tests_are_those_of_scipy() {
        for case in section("paired") {
            let sample = Sample::differences(&numbers(&case["first"]), &numbers(&case["second"])).unwrap();
            let found = sample.sign_flip(0);
            let known = case["sign_flip"].as_f64().unwrap();
            assert!(found.exact && (found.p - known).abs() < 1e-12, "{}: {found:?} and not {known}", case["name"]);
        }
    }

    #[test]
    fn all_of_one_sign_is_the_smallest_p() {
        for pairs in 1..=20 {
            let values: Vec<f64> = (0..pairs).map(|at| 0.1 + at as f64 / 3.0).collect();
            assert_eq!(p(&values), smallest_p(pairs), "{pairs} pairs");
        }
        assert_eq!([5, 8].map(smallest_p), [0.0625, 0.0078125]);
    }

    #[test]
    fn no_difference_at_all_is_no_evidence() {
        assert_eq!(p(&[0.0; 8]), 1.0);
    }

    #[test]
    fn random_flips_come_near_the_exact_p() {
        let values: Vec<f64> = (0..20).map(|at| f64::from(at * 37 % 20) / 10.0 - 0.65).collect();
        let sample = Sample::new("x", values).unwrap();
        let exact = sample.sign_flip(0).p;
        let (extreme, flips) = sample.random_flips(7);
        let found = extreme as f64 / flips as f64;
        let error = (exact * (1.0 - exact) / flips as f64).sqrt();
        assert!((found - exact).abs() < 4.5 * error, "{found} {exact}");
        assert!((0.02..0.2).contains(&exact), "{exact}: a p-value that random flips can resolve");
    }

    #[test]
    fn many_pairs_state_how_many_flips_were_tried() {
        let test = Sample::new("x", vec![1.0; 70]).unwrap().sign_flip(3);
        assert_eq!((test.exact, test.flips, test.p), (false, 100_000, 1e-5));
    }

    proptest! {
        #[test]
        fn order_sign_and_scale_do_not_matter(
            mut values in prop::collection::vec(-9_i32..10, 1..9),
            factor in 1_i32..50,
        ) {
            let p_of = |values: &[i32], factor: f64| {
                p(&values.iter().map(|v| f64::from(*v) / 10.0 * factor).collect::<Vec<_>>())
            };
            let known = p_of(&values, 1.0);
            prop_assert_eq!(p_of(&values, -f64::from(factor) / 7.0), known);
            values.reverse();
            prop_assert_eq!(p_of(&values, 1.0), known);
            prop_assert!(known >= smallest_p(values.len()));
        }
    }
}
