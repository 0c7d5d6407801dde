//! Answers that a warm start imitates.

use rand::Rng;

use crate::program::Program;
use crate::sum::Sum;
use crate::trailing_sum::TrailingSum;

/// An answer to imitate.
#[derive(Debug, Clone, PartialEq)]
pub enum Demonstration {
    /// As the row has it.
    Written(String),
    /// What is said turn by turn in an environment, which answers between them; at least one.
    Turns(Vec<String>),
    /// Drawn anew each time, for the built-in arithmetic.
    Sum(Sum),
    /// The same for the built-in programs.
    Program(Program),
    /// The same for the built-in sums with a trail.
    TrailingSum(TrailingSum),
}

impl Demonstration {
    /// Its text, of several turns what all of them say; what is drawn follows from `rng`.
    pub fn text(&self, rng: &mut impl Rng) -> String {
        match self {
            Self::Written(text) => text.clone(),
            Self::Turns(turns) => turns.concat(),
            Self::Sum(sum) => sum.demonstration(rng),
            Self::Program(program) => program.demonstration(rng),
            Self::TrailingSum(sum) => sum.demonstration(rng),
        }
    }

    /// The longest text that [`Self::text`] can give.
    pub fn longest(&self) -> String {
        match self {
            Self::Written(text) => text.clone(),
            Self::Turns(turns) => turns.concat(),
            Self::Sum(_) => Sum::longest_demonstration(),
            Self::Program(_) => Program::longest_demonstration(),
            Self::TrailingSum(sum) => sum.longest_demonstration(),
        }
    }
}
