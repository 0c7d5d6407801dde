//! One problem of a data set.

use serde_json::Value;

use crate::row::{Row, RowError};
use crate::sum::Sum;
use crate::{Fields, Rules, Task};
use rand::Rng;

/// One problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Its name in messages.
    pub id: String,
    /// What is asked, as the model reads it.
    pub prompt: String,
    /// What answers are judged against.
    pub task: Task,
    /// An answer to imitate, if the data has one.
    pub demonstration: Option<Demonstration>,
}

/// An answer to imitate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Demonstration {
    /// As the row has it.
    Written(String),
    /// Drawn anew each time, for the built-in task.
    Drawn(Sum),
}

impl Demonstration {
    /// Its text; what is drawn follows from `rng`.
    pub fn text(&self, rng: &mut impl Rng) -> String {
        match self {
            Self::Written(text) => text.clone(),
            Self::Drawn(sum) => sum.demonstration(rng),
        }
    }

    /// The longest text that [`Self::text`] can give.
    pub fn longest(&self) -> String {
        match self {
            Self::Written(text) => text.clone(),
            Self::Drawn(_) => Sum::longest_demonstration(),
        }
    }
}

impl Problem {
    /// The problem of a row, judged by `rules` where the row names none.
    ///
    /// # Errors
    /// No prompt, nothing to judge answers against, an empty gold answer.
    pub fn read(row: &Row, fields: &Fields, rules: &Rules) -> Result<Self, RowError> {
        let prompt = fields.prompt(row)?;
        let task = fields.task(row)?;
        if task.golds().any(str::is_empty) {
            return Err(RowError("the gold answer is empty, allowed: a text or a number".to_owned()));
        }
        let id = match fields.id(row) {
            Some(Value::String(id)) if !id.is_empty() => id.clone(),
            Some(Value::Number(id)) => id.to_string(),
            _ => format!("line {}", row.number()),
        };
        let demonstration = fields.demonstration(row)?.map(Demonstration::Written);
        Ok(Self { id, prompt, task: task.with_rules(rules), demonstration })
    }
}
