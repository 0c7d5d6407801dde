//! A sum of four digits and the answers that teach how to find it, each after a pause.

use rand::Rng;

const DIGITS: std::ops::RangeInclusive<u32> = 1..=9;

/// How demonstrations pause, and how many of them end wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pauses {
    /// Share of demonstrations that end wrong, 0 to 1.
    pub wrong: f64,
    /// The shortest and the longest pause before a right answer, in tokens; every length between them is as likely.
    pub before_right: [u32; 2],
    /// The same before a wrong answer.
    pub before_wrong: [u32; 2],
}

/// A sum of four digits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PausedSum {
    digits: [u32; 4],
    pauses: Pauses,
}

impl PausedSum {
    /// All sums, in order.
    pub(crate) fn all(pauses: Pauses) -> impl Iterator<Item = Self> {
        let pairs = || DIGITS.flat_map(|a| DIGITS.map(move |b| [a, b]));
        pairs().flat_map(move |[a, b]| pairs().map(move |[c, d]| Self { digits: [a, b, c, d], pauses }))
    }

    /// What it asks: `3+8+5+2`.
    pub(crate) fn words(self) -> String {
        self.digits.map(|digit| digit.to_string()).join("+")
    }

    pub(crate) fn total(self) -> u32 {
        self.digits.iter().sum()
    }

    /// Its digits, the smallest first.
    pub(crate) fn ascending(self) -> [u32; 4] {
        let mut digits = self.digits;
        digits.sort_unstable();
        digits
    }

    /// A pause and an answer. A wrong one is close to the right one, so that both kinds teach addition.
    pub(crate) fn demonstration(self, rng: &mut impl Rng) -> String {
        const ERRORS: [i64; 4] = [-2, -1, 1, 2];
        let is_wrong = rng.random::<f64>() < self.pauses.wrong;
        let [shortest, longest] = if is_wrong { self.pauses.before_wrong } else { self.pauses.before_right };
        let pause = rng.random_range(shortest..=longest);
        let error = if is_wrong { ERRORS[rng.random_range(0..ERRORS.len())] } else { 0 };
        self.answered(pause, error)
    }

    /// The longest demonstration.
    pub(crate) fn longest_demonstration(self) -> String {
        let longest = self.pauses.before_right[1].max(self.pauses.before_wrong[1]);
        Self { digits: [*DIGITS.end(); 4], ..self }.answered(longest, 0)
    }

    /// So many tokens of pause, and the sum off by `error`.
    fn answered(self, pause: u32, error: i64) -> String {
        format!("{}\\boxed{{{}}}", ".".repeat(pause as usize), i64::from(self.total()) + error)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_seeds::{Stream, rng};

    use super::*;

    /// Lengths of the pauses before right and before wrong answers.
    fn drawn(pauses: Pauses) -> (Vec<u32>, Vec<u32>) {
        let (mut right, mut wrong) = (Vec::new(), Vec::new());
        for (row, sum) in (0..).zip(PausedSum::all(pauses)) {
            let text = sum.demonstration(&mut rng(1, Stream::Demonstration { step: 0, row }));
            assert!(text.len() <= sum.longest_demonstration().len());
            let pause = text.chars().take_while(|character| *character == '.').count() as u32;
            let is_right = text.ends_with(&format!("\\boxed{{{}}}", sum.total()));
            if is_right { &mut right } else { &mut wrong }.push(pause);
        }
        (right, wrong)
    }

    #[test]
    fn pauses_are_as_long_as_they_are_told_to_be_and_depend_on_nothing_else() {
        let (right, wrong) = drawn(Pauses { wrong: 0.4, before_right: [0, 20], before_wrong: [30, 32] });
        let share = wrong.len() as f64 / (right.len() + wrong.len()) as f64;
        assert!((share - 0.4).abs() < 0.02, "{share}");
        let range = |pauses: &[u32]| (*pauses.iter().min().unwrap(), *pauses.iter().max().unwrap());
        assert_eq!((range(&right), range(&wrong)), ((0, 20), (30, 32)));
        let mean = right.iter().sum::<u32>() as f64 / right.len() as f64;
        assert!((mean - 10.0).abs() < 0.5, "{mean}");
    }

    #[test]
    fn an_answer_is_a_pause_and_a_boxed_sum() {
        let sum = PausedSum {
            digits: [3, 8, 5, 2],
            pauses: Pauses { wrong: 0.0, before_right: [3, 3], before_wrong: [0, 0] },
        };
        let text = sum.demonstration(&mut rng(0, Stream::Demonstration { step: 0, row: 0 }));
        assert_eq!((sum.words().as_str(), text.as_str()), ("3+8+5+2", "...\\boxed{18}"));
    }
}
