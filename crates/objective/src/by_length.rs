//! How a rule shares the gradient out among short and long responses.

use serde::{Deserialize, Serialize};

/// Parts of a step's responses by length.
pub const QUARTERS: usize = 4;

/// What a rule gives to each quarter of the responses that have an advantage, from the shortest to the longest.
/// Responses of one length share the quarters that they span, so that their order does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ByLength {
    /// The quarter's share of the sum of w abs(A) T: of the gradient, as far as tokens have gradients of the same size.
    /// They add up to 1.
    pub share: [f64; QUARTERS],
    /// The mean weight of one of its tokens, relative to the mean token of the rule.
    pub weight: [f64; QUARTERS],
}

/// For each of some responses the part of it that is in each quarter.
pub(crate) struct Quarters {
    lengths: Vec<f64>,
    parts: Vec<[f64; QUARTERS]>,
}

impl Quarters {
    /// Divides responses of these lengths into quarters.
    pub(crate) fn of(lengths: Vec<f64>) -> Self {
        let mut sorted = lengths.clone();
        sorted.sort_by(f64::total_cmp);
        let quarter = lengths.len() as f64 / QUARTERS as f64;
        let part = |length: &f64| {
            let first = sorted.partition_point(|other| other < length) as f64;
            let behind = sorted.partition_point(|other| other <= length) as f64;
            std::array::from_fn(|index| {
                let low = quarter * index as f64;
                let high = quarter * (index + 1) as f64;
                (behind.min(high) - first.max(low)).max(0.0) / (behind - first)
            })
        };
        let parts = lengths.iter().map(part).collect();
        Self { lengths, parts }
    }

    /// The mean length of each quarter; absent without responses.
    pub(crate) fn lengths(&self) -> Option<[f64; QUARTERS]> {
        let lengths = self.sums(self.lengths.iter().copied());
        let quarter = self.lengths.len() as f64 / QUARTERS as f64;
        (quarter > 0.0).then(|| lengths.map(|sum| sum / quarter))
    }

    /// What a rule gives to each, of the weight and abs(A) of every response. Absent without a weight.
    pub(crate) fn of_rule(&self, terms: &[(f64, f64)]) -> Option<ByLength> {
        let sums_of = |value: fn((f64, f64), f64) -> f64| {
            self.sums(terms.iter().zip(&self.lengths).map(|(&term, &length)| value(term, length)))
        };
        let pulls = sums_of(|(weight, advantage), length| weight * advantage * length);
        let weights = sums_of(|(weight, _), length| weight * length);
        let tokens = sums_of(|_, length| length);
        let total = |of: &[f64; QUARTERS]| of.iter().sum::<f64>();
        let mean = total(&weights) / total(&tokens);
        let by_length = ByLength {
            share: pulls.map(|pull| pull / total(&pulls)),
            weight: std::array::from_fn(|index| weights[index] / tokens[index] / mean),
        };
        by_length.share.iter().chain(&by_length.weight).all(|value| value.is_finite()).then_some(by_length)
    }

    fn sums(&self, values: impl Iterator<Item = f64>) -> [f64; QUARTERS] {
        let mut sums = [0.0; QUARTERS];
        for (value, parts) in values.zip(&self.parts) {
            sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += value * part);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_of_one_length_share_the_quarters_that_they_span() {
        let quarters = Quarters::of(vec![5.0, 1.0, 5.0, 9.0, 5.0, 5.0]);
        // In order 1 5 5 5 5 9: quarters of one and a half responses.
        let of_five = [0.5 / 4.0, 1.5 / 4.0, 1.5 / 4.0, 0.5 / 4.0];
        assert_eq!(quarters.parts[0], of_five);
        assert_eq!((quarters.parts[1], quarters.parts[3]), ([1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]));
        assert_eq!(quarters.parts[4], of_five);
        assert_eq!(quarters.lengths(), Some([3.5 / 1.5, 5.0, 5.0, 11.5 / 1.5]));
        assert_eq!(Quarters::of(Vec::new()).lengths(), None);
    }

    #[test]
    fn one_response_is_in_all_quarters() {
        let by_length = Quarters::of(vec![7.0]).of_rule(&[(0.5, 2.0)]).unwrap();
        assert_eq!(by_length, ByLength { share: [0.25; 4], weight: [1.0; 4] });
        assert_eq!(Quarters::of(vec![7.0]).of_rule(&[(0.0, 2.0)]), None);
    }
}
