//! A sum of four digits and the answers that teach it, each followed by a trail of filler tokens.

use rand::Rng;

const DIGITS: std::ops::RangeInclusive<u32> = 1..=9;
/// By how much a wrong answer is off.
const OFF: u32 = 10;

/// How many filler tokens end demonstrations, and how many demonstrations are wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trails {
    /// Share of demonstrations that are wrong, 0 to 1.
    pub wrong: f64,
    /// Minimum and maximum number of filler tokens appended after a right answer, drawn uniformly.
    pub after_right: [u32; 2],
    /// Minimum and maximum number of filler tokens appended after a wrong answer, drawn uniformly.
    pub after_wrong: [u32; 2],
}

/// A sum of four digits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrailingSum {
    digits: [u32; 4],
    trails: Trails,
}

impl TrailingSum {
    /// All sums, in order.
    pub(crate) fn all(trails: Trails) -> impl Iterator<Item = Self> {
        let pairs = || DIGITS.flat_map(|a| DIGITS.map(move |b| [a, b]));
        pairs().flat_map(move |[a, b]| pairs().map(move |[c, d]| Self { digits: [a, b, c, d], trails }))
    }

    /// Question: `3+8+5+2`.
    pub(crate) fn words(self) -> String {
        self.digits.map(|digit| digit.to_string()).join("+")
    }

    pub(crate) fn total(self) -> u32 {
        self.digits.iter().sum()
    }

    /// The four digits in ascending order.
    pub(crate) fn ascending(self) -> [u32; 4] {
        let mut digits = self.digits;
        digits.sort_unstable();
        digits
    }

    /// An answer and its trail. A wrong one is off by ten: it teaches addition as well, and is so far off that a model
    /// which adds a little knows when it has given one. Only then can the trail after it differ.
    pub(crate) fn demonstration(self, rng: &mut impl Rng) -> String {
        let is_wrong = rng.random::<f64>() < self.trails.wrong;
        let [shortest, longest] = if is_wrong { self.trails.after_wrong } else { self.trails.after_right };
        let trail = rng.random_range(shortest..=longest);
        let error = match (is_wrong, self.total() <= OFF || rng.random()) {
            (false, _) => 0,
            (true, true) => i64::from(OFF),
            (true, false) => -i64::from(OFF),
        };
        self.answered(error, trail)
    }

    pub(crate) fn longest_demonstration(self) -> String {
        let longest = self.trails.after_right[1].max(self.trails.after_wrong[1]);
        Self { digits: [*DIGITS.end(); 4], ..self }.answered(i64::from(OFF), longest)
    }

    /// The sum off by `error`, and this many tokens of trail.
    fn answered(self, error: i64, trail: u32) -> String {
        format!("\\boxed{{{}}}{}", i64::from(self.total()) + error, ".".repeat(trail as usize))
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_seeds::{Stream, rng};

    use super::*;

    /// Lengths of the trails after right and after wrong answers.
    fn drawn(trails: Trails) -> (Vec<u32>, Vec<u32>) {
        let mut right = Vec::new();
        let mut wrong = Vec::new();
        for (row, sum) in (0..).zip(TrailingSum::all(trails)) {
            let text = sum.demonstration(&mut rng(1, Stream::Demonstration { step: 0, row }));
            assert!(text.len() <= sum.longest_demonstration().len());
            let trail = text.chars().filter(|character| *character == '.').count() as u32;
            let is_right = text.starts_with(&format!("\\boxed{{{}}}", sum.total()));
            if is_right { &mut right } else { &mut wrong }.push(trail);
        }
        (right, wrong)
    }

    #[test]
    fn trails_are_as_long_as_they_are_told_to_be_and_depend_on_nothing_else() {
        let (right, wrong) = drawn(Trails { wrong: 0.4, after_right: [0, 20], after_wrong: [30, 32] });
        let share = wrong.len() as f64 / (right.len() + wrong.len()) as f64;
        assert!((share - 0.4).abs() < 0.02, "{share}");
        let range = |trails: &[u32]| (*trails.iter().min().unwrap(), *trails.iter().max().unwrap());
        assert_eq!((range(&right), range(&wrong)), ((0, 20), (30, 32)));
        let mean = right.iter().sum::<u32>() as f64 / right.len() as f64;
        assert!((mean - 10.0).abs() < 0.5, "{mean}");
    }

    #[test]
    fn an_answer_is_a_boxed_sum_and_a_trail() {
        let sum = TrailingSum {
            digits: [3, 8, 5, 2],
            trails: Trails { wrong: 0.0, after_right: [3, 3], after_wrong: [0, 0] },
        };
        let text = sum.demonstration(&mut rng(0, Stream::Demonstration { step: 0, row: 0 }));
        assert_eq!((sum.words().as_str(), text.as_str()), ("3+8+5+2", "\\boxed{18}..."));
    }
}
