//! Answers that a warm start imitates.

use rand::Rng;

use crate::program::Program;
use crate::sum::Sum;
use crate::trailing_sum::TrailingSum;

/// An answer to imitate.
#[derive(Debug, Clone, PartialEq)]
pub enum Demonstration {
    /// The text that the row has.
    Written(String),
    /// The model's turns in an environment, which answers between them; at least one.
    Turns(Vec<String>),
    /// Drawn anew each time, for the built-in arithmetic.
    Sum(Sum),
    /// Drawn anew each time, for the built-in programs.
    Program(Program),
    /// Drawn anew each time, for the built-in sums with a trail.
    TrailingSum(TrailingSum),
}

impl Demonstration {
    /// The text of the answer, with all turns concatenated. `rng` decides what is drawn.
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
