//! Several comparisons at once, such as all pairs of rules in a study.

use evenkeel_errors::FieldError;

use crate::interval::ensure_finite;
use crate::paired::{Comparison, Evidence, Intervals, MIN_PAIRS, Test, Verdict};
use crate::sign_flip::{self, MAX_EXACT_PAIRS};
use crate::{Estimate, Settings};

/// Compares pairs of rules, each given by the differences of its runs (one for each seed that both finished), as one family: all comparisons
/// of one study and one outcome belong in one call, since the p values are adjusted for their number.
///
/// A member with fewer than [`MIN_PAIRS`] pairs is not tested, and still counts in the size of the family: which seeds fail may have to do
/// with the outcome.
///
/// # Errors
/// A setting out of range, and differences that are not finite.
pub fn compare<D: AsRef<[f64]>>(family: &[D], settings: &Settings) -> Result<Vec<Comparison>, FieldError> {
    settings.validate()?;
    for (index, differences) in family.iter().enumerate() {
        ensure_finite("differences", differences.as_ref()).map_err(|error| error.within(format!("family[{index}]")))?;
    }
    let tested =
        |differences: &[f64]| (differences.len() >= MIN_PAIRS).then(|| sign_flip::p_value(differences, settings));
    let p_values: Vec<Option<f64>> = family.iter().map(|differences| tested(differences.as_ref())).collect();
    let adjusted = holm(&p_values.iter().map(|p| p.unwrap_or(1.0)).collect::<Vec<_>>());
    let comparisons = family.iter().zip(p_values).zip(adjusted).map(|((differences, p_value), adjusted_p_value)| {
        let differences = differences.as_ref();
        let difference = Estimate::of_mean(differences.iter().copied());
        let intervals = Intervals::of(differences, settings);
        let evidence = match p_value {
            None => Evidence::TooFewPairs { pairs: differences.len() },
            Some(p_value) => Evidence::Tested(Test {
                p_value,
                adjusted_p_value,
                is_exact: differences.len() <= MAX_EXACT_PAIRS,
                verdict: verdict(differences, difference, &intervals, adjusted_p_value, family.len(), settings),
            }),
        };
        Comparison { difference, intervals, evidence }
    });
    Ok(comparisons.collect())
}

fn verdict(
    differences: &[f64],
    difference: Option<Estimate>,
    intervals: &Intervals,
    adjusted_p_value: f64,
    tests: usize,
    settings: &Settings,
) -> Verdict {
    let pairs_needed = sign_flip::pairs_needed(tests, settings.significance());
    if differences.len() < pairs_needed {
        return Verdict::OutOfReach { pairs_needed };
    }
    // Signs alone may be sure of a difference that one wild run makes Student's interval doubt: a verdict has both on its side.
    let is_shown = adjusted_p_value <= settings.significance() * (1.0 + 1e-12)
        && intervals.student.is_none_or(|interval| !interval.contains(0.0));
    match difference {
        Some(difference) if is_shown && difference.value > 0.0 => Verdict::Higher,
        Some(difference) if is_shown && difference.value < 0.0 => Verdict::Lower,
        _ => Verdict::Undecided,
    }
}

/// p values adjusted by Holm's step-down procedure (Holm 1979, Scandinavian Journal of Statistics 6, 65-70): the i-th smallest of m is
/// multiplied by m - i + 1, and none falls below a smaller one's. It holds whatever the dependence between the tests.
fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max((p_values[index] * (p_values.len() - rank) as f64).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLEAR: [f64; 8] = [0.05, 0.04, 0.06, 0.05, 0.03, 0.05, 0.04, 0.06];
    const UNCLEAR: [f64; 8] = [0.05, -0.04, 0.06, -0.05, 0.03, 0.05, -0.04, -0.06];

    fn verdicts(family: &[Vec<f64>]) -> Vec<Option<Verdict>> {
        let verdict = |comparison: Comparison| match comparison.evidence {
            Evidence::TooFewPairs { .. } => None,
            Evidence::Tested(test) => Some(test.verdict),
        };
        compare(family, &Settings::default()).unwrap().into_iter().map(verdict).collect()
    }

    #[test]
    fn a_clear_difference_is_shown_with_its_direction() {
        let negative: Vec<f64> = CLEAR.iter().map(|difference| -difference).collect();
        let found = verdicts(&[CLEAR.to_vec(), negative, UNCLEAR.to_vec(), vec![0.0; 8]]);
        let expected = [Verdict::Higher, Verdict::Lower, Verdict::Undecided, Verdict::Undecided];
        assert_eq!(found, expected.map(Some));
    }

    #[test]
    fn seven_pairs_have_estimates_and_no_verdict_however_clear_they_are() {
        let found = &compare(&[&CLEAR[..7]], &Settings::default()).unwrap()[0];
        assert_eq!(found.evidence, Evidence::TooFewPairs { pairs: 7 });
        assert_eq!(found.difference.unwrap().units, 7);
        assert!(found.intervals.student.unwrap().low > 0.0);
    }

    #[test]
    fn a_family_in_which_nothing_could_be_shown_says_how_many_pairs_could() {
        // Ten pairs of five rules: 10 * 2 / 2^8 is above 0.05, 10 * 2 / 2^9 is not.
        assert_eq!(verdicts(&vec![CLEAR.to_vec(); 10]), [Some(Verdict::OutOfReach { pairs_needed: 9 }); 10]);
        let nine = [&CLEAR[..], &[0.05]].concat();
        assert_eq!(verdicts(&vec![nine; 10]), [Some(Verdict::Higher); 10]);
        assert_eq!(verdicts(&vec![CLEAR.to_vec(); 6]), [Some(Verdict::Higher); 6], "six pairs of four rules");
    }

    #[test]
    fn a_member_that_cannot_be_tested_still_counts_in_the_family() {
        // Six with eight pairs would do; the seventh makes it 7 * 2 / 2^8 = 0.055.
        let mut family = vec![CLEAR.to_vec(); 6];
        family.push(vec![]);
        assert_eq!(verdicts(&family)[0], Some(Verdict::OutOfReach { pairs_needed: 9 }));
        assert_eq!(verdicts(&family)[6], None);
        assert_eq!(compare(&family, &Settings::default()).unwrap()[6].difference, None);
    }

    #[test]
    fn one_wild_run_leaves_a_difference_undecided_though_all_signs_agree() {
        let wild = [0.01, 0.01, 0.02, 0.01, 0.02, 0.01, 0.01, 0.9];
        let found = &compare(&[wild], &Settings::default()).unwrap()[0];
        let Evidence::Tested(test) = found.evidence else { panic!("{found:?}") };
        assert_eq!((test.p_value, test.verdict), (2.0 / 256.0, Verdict::Undecided));
        assert!(found.intervals.student.unwrap().contains(0.0));
    }

    #[test]
    fn holms_example() {
        let found = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in found.into_iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-15, "{found} {expected}");
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn differences_that_are_no_numbers_are_refused_with_their_place() {
        let error = compare(&[vec![0.1], vec![0.1, f64::INFINITY]], &Settings::default()).unwrap_err();
        assert_eq!(error.to_string(), "family[1].differences[1] is inf, allowed: a finite number");
    }

    proptest! {
        /// The closed testing procedure with Bonferroni's test, of which Holm's is a shortcut: a hypothesis is rejected where every
        /// intersection that contains it is.
        #[test]
        fn holm_is_bonferroni_closed(p_values in prop::collection::vec(0.0_f64..1.0, 1..7)) {
            let bonferroni = |subset: u32| {
                let members = || p_values.iter().enumerate().filter(move |(i, _)| subset >> i & 1 == 1);
                (members().map(|(_, p)| *p).fold(1.0, f64::min) * members().count() as f64).min(1.0)
            };
            for (index, found) in holm(&p_values).into_iter().enumerate() {
                let subsets = (1_u32..1 << p_values.len()).filter(|subset| subset >> index & 1 == 1);
                let expected = subsets.map(bonferroni).fold(0.0, f64::max);
                prop_assert!((found - expected).abs() < 1e-12, "{found} {expected}");
            }
        }
    }
}
