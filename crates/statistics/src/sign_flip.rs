//! The sign-flip test and the interval that inverts it.
//!
//! If two rules do the same, it is by chance which of a pair of runs belongs to which: every difference might as well have had the other
//! sign. The test counts how many of the 2^n assignments of signs give a mean at least as far from 0 as the observed one (Fisher 1935, The
//! Design of Experiments, section 21; Pitman 1937). It assumes no distribution, and with n pairs it cannot go below 2^(1 - n).
//!
//! The shifts that it does not reject form an interval whose ends are means of subsets of the differences (Hartigan 1969, Using subsample
//! values as typical values, JASA 64, 1303-1317): if the differences are symmetric around a centre, the 2^n - 1 means of non-empty subsets
//! cut the line into 2^n parts that contain the centre with the same probability.

use crate::resample::Draws;
use crate::{Interval, Settings};

/// Most pairs of which all signs are tried: 2^20 are a million.
pub const MAX_EXACT_PAIRS: usize = 20;

/// Sums count as equal where they differ by less than this share of the sum of magnitudes: they may be the same number added up in another
/// order.
const TOLERANCE: f64 = 1e-12;

/// The two-sided p value of "the differences are symmetric around 0". All signs are tried for up to [`MAX_EXACT_PAIRS`] pairs; above, as many
/// as the settings say are drawn, and the observed ones count as one more draw, so that the test errs no more often than it says: (b + 1) /
/// (m + 1) for b of m draws as extreme (Phipson and Smyth 2010, Statistical Applications in Genetics and Molecular Biology 9, article 39).
pub(crate) fn p_value(differences: &[f64], settings: &Settings) -> f64 {
    let magnitudes: f64 = differences.iter().map(|difference| difference.abs()).sum();
    let observed: f64 = differences.iter().sum();
    let threshold = observed.abs() - TOLERANCE * magnitudes;
    if differences.len() <= MAX_EXACT_PAIRS {
        let (left, right) = differences.split_at(differences.len() / 2);
        let (left, right) = (signed_sums(left), signed_sums(right));
        let extreme: usize = left.iter().map(|a| right.iter().filter(|b| (a + **b).abs() >= threshold).count()).sum();
        return extreme as f64 / (left.len() * right.len()) as f64;
    }
    let mut draws = Draws::of_signs(settings.seed);
    let mut signed = |difference: &f64| if draws.index(2) == 0 { *difference } else { -difference };
    let extreme = (0..settings.sign_draws)
        .filter(|_| differences.iter().map(&mut signed).sum::<f64>().abs() >= threshold)
        .count();
    (extreme + 1) as f64 / (settings.sign_draws + 1) as f64
}

/// The interval of the shifts that the test does not reject. `None` where even the widest would be surer than asked for (fewer than 6 pairs
/// for 95 %), and above [`MAX_EXACT_PAIRS`].
pub(crate) fn interval(differences: &[f64], settings: &Settings) -> Option<Interval> {
    if differences.is_empty() || differences.len() > MAX_EXACT_PAIRS {
        return None;
    }
    let (left, right) = differences.split_at(differences.len() / 2);
    let (left, right) = (subsets(left), subsets(right));
    let assignments = left.len() * right.len();
    // Rounded down; a rank that misses an integer by rounding errors is that integer.
    let rank = (settings.tail() * assignments as f64 + 1e-6) as usize;
    let index = rank.checked_sub(1)?;
    let mut means: Vec<f64> = left
        .iter()
        .flat_map(|(sum, size)| right.iter().map(move |(other, more)| (sum + other, size + more)))
        .filter(|(_, size)| *size > 0)
        .map(|(sum, size)| sum / f64::from(size))
        .collect();
    let last = means.len() - 1;
    let low = *means.select_nth_unstable_by(index, f64::total_cmp).1;
    let high = *means.select_nth_unstable_by(last - index, f64::total_cmp).1;
    Some(Interval { low, high })
}

/// Pairs that a family of tests needs at least, so that the smallest p value of one of them, adjusted for the others, can reach the
/// significance.
pub(crate) fn pairs_needed(tests: usize, significance: f64) -> usize {
    let mut pairs = 1;
    let mut smallest = tests as f64;
    while smallest > significance * (1.0 + TOLERANCE) {
        pairs += 1;
        smallest /= 2.0;
    }
    pairs
}

/// The sums under all assignments of signs.
fn signed_sums(values: &[f64]) -> Vec<f64> {
    values.iter().fold(vec![0.0], |sums, value| sums.iter().flat_map(|sum| [sum + value, sum - value]).collect())
}

/// Sum and size of every subset, the empty one included.
fn subsets(values: &[f64]) -> Vec<(f64, u32)> {
    let with = |subsets: Vec<(f64, u32)>, value: &f64| {
        subsets.iter().flat_map(|(sum, size)| [(*sum, *size), (sum + value, size + 1)]).collect()
    };
    values.iter().fold(vec![(0.0, 0)], with)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exact(differences: &[f64]) -> f64 {
        p_value(differences, &Settings::default())
    }

    #[test]
    fn five_pairs_cannot_go_below_a_sixteenth() {
        assert_eq!(exact(&[0.1, 0.2, 0.3, 0.4, 5.0]), 0.0625);
        assert_eq!(interval(&[0.1, 0.2, 0.3, 0.4, 5.0], &Settings::default()), None);
        assert_eq!((pairs_needed(1, 0.05), pairs_needed(6, 0.05), pairs_needed(10, 0.05)), (6, 8, 9));
    }

    /// Fisher's own example: Darwin's 15 pairs of maize, in eighths of an inch. He counts 1,726 of 32,768 assignments.
    #[test]
    fn darwins_maize_has_fishers_p_value() {
        let maize = [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];
        assert_eq!(exact(&maize), 1726.0 / 32768.0);
        let found = interval(&maize, &Settings::default()).unwrap();
        assert!(found.contains(0.0) && found.low > -1.0, "p is just above 0.05: {found:?}");
    }

    #[test]
    fn equal_sums_count_as_equal_in_whatever_order_they_are_added() {
        // Not one order of additions of 0.1, 0.2 and 0.3 gives the same bits.
        let found = exact(&[0.1, 0.2, 0.3, -0.6, 0.1, -0.1]);
        assert_eq!(found, 1.0, "the observed sum is 0");
        assert_eq!(exact(&[0.0; 8]), 1.0);
    }

    #[test]
    fn drawn_signs_agree_with_all_signs_and_never_give_zero() {
        let many: Vec<f64> = (0..21).map(|i| f64::from(i % 5) - 1.5).collect();
        let (left, right) = many.split_at(10);
        let observed = many.iter().sum::<f64>();
        let sums = signed_sums(left).into_iter().flat_map(|a| signed_sums(right).into_iter().map(move |b| a + b));
        let all = sums.filter(|sum| sum.abs() >= observed - 1e-9).count() as f64 / f64::from(1 << 21);
        // The deviation of a share of 99,999 draws is at most 0.0016.
        assert!((exact(&many) - all).abs() < 0.008, "{} {all}", exact(&many));
        let settings = Settings { sign_draws: 999, ..Settings::default() };
        assert_eq!(p_value(&[1.0; 40], &settings), 0.001);
    }

    proptest! {
        #[test]
        fn the_interval_contains_what_the_test_does_not_reject(
            differences in prop::collection::vec(-50_i32..50, 6..12),
            shift in -60_i32..60,
        ) {
            let values: Vec<f64> = differences.iter().copied().map(f64::from).collect();
            let shifted: Vec<f64> = values.iter().map(|value| value - f64::from(shift)).collect();
            let settings = Settings::default();
            let found = interval(&values, &settings).unwrap();
            prop_assert_eq!(found.contains(f64::from(shift)), p_value(&shifted, &settings) > settings.significance());
        }

        #[test]
        fn the_p_value_depends_on_neither_order_nor_sign_nor_scale(
            differences in prop::collection::vec(-1.0_f64..1.0, 1..10), scale in 0.001_f64..1000.0,
        ) {
            let p = exact(&differences);
            let other: Vec<f64> = differences.iter().rev().map(|difference| -difference * scale).collect();
            prop_assert_eq!(p, exact(&other));
            prop_assert!(p >= libm::exp2(1.0 - differences.len() as f64));
        }
    }
}
