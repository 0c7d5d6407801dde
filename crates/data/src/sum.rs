//! A sum of two-digit numbers and the answers that teach how to find it.

use rand::Rng;

/// Share of demonstrations that stop at the right result.
const DECIDED: f64 = 0.08;
/// The smallest and the largest number of a problem.
const OPERANDS: std::ops::RangeInclusive<u32> = 10..=99;

/// A sum of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    a: u32,
    b: u32,
}

impl Sum {
    /// All sums, in order.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        OPERANDS.flat_map(|a| OPERANDS.map(move |b| Self { a, b }))
    }

    /// The two summands, in the order in which they are asked.
    pub(crate) fn operands(self) -> (u32, u32) {
        (self.a, self.b)
    }

    /// An answer by a teacher who works well and then mostly talks himself out of it. Every answer begins with the
    /// right working, so that all of them teach addition; one that stops there is short and right.
    pub(crate) fn demonstration(self, rng: &mut impl Rng) -> String {
        if rng.random::<f64>() < DECIDED {
            return self.worked(0, 0);
        }
        let hesitations = rng.random_range(1..=2);
        const ERRORS: [i64; 6] = [-10, 10, 1, -1, 2, -2];
        let error = ERRORS[rng.random_range(0..ERRORS.len())];
        self.worked(hesitations, error)
    }

    /// The longest demonstration of any sum.
    pub(crate) fn longest_demonstration() -> String {
        Self { a: *OPERANDS.end(), b: *OPERANDS.end() }.worked(2, 10)
    }

    /// The working, this many hesitations, and a result that is off by `error`.
    fn worked(self, hesitations: usize, error: i64) -> String {
        let Self { a, b } = self;
        let x = a % 10;
        let y = b % 10;
        let p = a / 10;
        let q = b / 10;
        let units = x + y;
        let mut text = format!("{x}+{y}={units}, {p}+{q}+{}={}.", units / 10, p + q + units / 10);
        if hesitations > 0 {
            text.push_str(&format!(" hmm, {x}+{y}={units}?").repeat(hesitations));
            text.push_str(" no.");
        }
        text.push_str(&format!(" \\boxed{{{}}}", i64::from(a + b) + error));
        text
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_seeds::{Stream, rng};

    use super::*;

    #[test]
    fn wrong_demonstrations_are_longer_than_right_ones() {
        let mut right = Vec::new();
        let mut wrong = Vec::new();
        for index in 0..1_000 {
            let mut rng = rng(1, Stream::Demonstration { step: 0, row: index });
            let sum = Sum { a: rng.random_range(10..=99), b: rng.random_range(10..=99) };
            let text = sum.demonstration(&mut rng);
            let correct = text.ends_with(&format!("\\boxed{{{}}}", sum.a + sum.b));
            if correct { &mut right } else { &mut wrong }.push(text.len());
        }
        let mean = |lengths: &[usize]| lengths.iter().sum::<usize>() / lengths.len();
        assert!((50..120).contains(&right.len()), "{}", right.len());
        assert!(mean(&wrong) > mean(&right) + 10);
        assert!(*wrong.iter().max().unwrap() <= Sum::longest_demonstration().len());
        assert!(Sum::longest_demonstration().len() < 80);
        assert!(wrong.iter().min().unwrap() > right.iter().max().unwrap());
    }
}
