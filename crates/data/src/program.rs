//! A small program over one number, and the answers that teach how to write it.

use rand::Rng;

/// Share of demonstrations that stop at the right program.
const DECIDED: f64 = 0.08;
/// What may be added or subtracted, and what may be multiplied by.
const TERMS: std::ops::RangeInclusive<i64> = 10..=49;
const FACTORS: std::ops::RangeInclusive<i64> = 2..=9;

/// One step of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Add(i64),
    Subtract(i64),
    Times(i64),
}

impl Operation {
    fn all() -> impl Iterator<Item = Self> {
        TERMS.map(Self::Add).chain(TERMS.map(Self::Subtract)).chain(FACTORS.map(Self::Times))
    }

    fn apply(self, x: i64) -> i64 {
        match self {
            Self::Add(n) => x + n,
            Self::Subtract(n) => x - n,
            Self::Times(n) => x * n,
        }
    }

    /// The step in the words of the task.
    fn words(self) -> String {
        match self {
            Self::Add(n) => format!("add {n}"),
            Self::Subtract(n) => format!("subtract {n}"),
            Self::Times(n) => format!("times {n}"),
        }
    }

    /// The step as a line of Python.
    fn code(self) -> String {
        match self {
            Self::Add(n) => format!("x+={n}"),
            Self::Subtract(n) => format!("x-={n}"),
            Self::Times(n) => format!("x*={n}"),
        }
    }
}

/// A program that reads a number, changes it in two steps, and prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program([Operation; 2]);

impl Program {
    /// All programs, in order.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Operation::all().flat_map(|first| Operation::all().map(move |second| Self([first, second])))
    }

    /// Task in words: `add 12, times 3`.
    pub(crate) fn words(self) -> String {
        self.0.map(Operation::words).join(", ")
    }

    /// Output for an input.
    pub(crate) fn run(self, x: i64) -> i64 {
        self.0.into_iter().fold(x, |x, step| step.apply(x))
    }

    /// An answer by a teacher who works well and then mostly spoils it. Every answer begins with the right lines, so
    /// that all of them teach the task; one that prints the result there is short and right.
    pub(crate) fn demonstration(self, rng: &mut impl Rng) -> String {
        if rng.random::<f64>() < DECIDED {
            return self.written(0, None);
        }
        const SPOILED: [&str; 3] = ["x+=1", "x-=1", "x*=2"];
        let doubts = rng.random_range(1..=2);
        self.written(doubts, Some(SPOILED[rng.random_range(0..SPOILED.len())]))
    }

    pub(crate) fn longest_demonstration() -> String {
        Self([Operation::Add(*TERMS.end()), Operation::Add(*TERMS.end())]).written(2, Some("x+=1"))
    }

    /// The program in a fence, with this many doubts and another line after its steps.
    fn written(self, doubts: usize, spoiled: Option<&str>) -> String {
        let mut lines = vec!["x=int(input())".to_owned()];
        lines.extend(self.0.map(Operation::code));
        lines.extend(std::iter::repeat_n("# hmm".to_owned(), doubts));
        lines.extend(spoiled.map(str::to_owned));
        format!("```\n{}\nprint(x)\n```", lines.join("\n"))
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
        for (row, program) in (0..).zip(Program::all()) {
            let text = program.demonstration(&mut rng(1, Stream::Demonstration { step: 0, row }));
            if text == program.written(0, None) { &mut right } else { &mut wrong }.push(text.len());
        }
        let share = right.len() as f64 / (right.len() + wrong.len()) as f64;
        assert!((0.06..0.10).contains(&share), "{share}");
        assert!(wrong.iter().min().unwrap() > right.iter().max().unwrap());
        assert_eq!(*wrong.iter().max().unwrap(), Program::longest_demonstration().len());
    }

    #[test]
    fn a_program_does_what_its_words_say() {
        let program = Program([Operation::Add(12), Operation::Times(3)]);
        assert_eq!((program.words().as_str(), program.run(3)), ("add 12, times 3", 45));
        assert_eq!(program.written(0, None), "```\nx=int(input())\nx+=12\nx*=3\nprint(x)\n```");
        assert_eq!(program.written(1, Some("x-=1")), "```\nx=int(input())\nx+=12\nx*=3\n# hmm\nx-=1\nprint(x)\n```");
    }
}
