//! The environments that come with the program, by name.

use evenkeel_errors::FieldError;

use crate::calculator::Calculator;
use crate::environment::{Environment, TaskError};
use crate::guess_number::GuessNumber;
use crate::tool::Tool;

/// An environment that comes with the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BuiltIn {
    /// Exact arithmetic as a tool; the final answer goes to the verifier of the task.
    Calculator,
    /// A game: a number is guessed, and every guess is told whether it is too low or too high.
    GuessNumber,
}

impl BuiltIn {
    /// Every built-in environment, in the order of the names.
    pub const ALL: [Self; 2] = [Self::Calculator, Self::GuessNumber];

    pub fn name(self) -> &'static str {
        match self {
            Self::Calculator => "calculator",
            Self::GuessNumber => "guess-number",
        }
    }

    /// The environment of a name.
    ///
    /// # Errors
    /// A name that none has; `field` is where it was written.
    pub fn named(field: &str, name: &str) -> Result<Self, FieldError> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|environment| environment.name() == name);
        found.ok_or_else(|| FieldError::quoted(field, name, format!("one of {}", names())))
    }

    /// What the model is told beforehand.
    pub fn system_prompt(self) -> &'static str {
        match self {
            Self::Calculator => "Compute with the tool `calculator`, then give the final answer within \\boxed{}.",
            Self::GuessNumber => "Find the number with the tool `guess`, in as few guesses as you can.",
        }
    }

    /// Whether the user says something to turns without calls.
    pub fn user_speaks(self) -> bool {
        match self {
            Self::Calculator => false,
            Self::GuessNumber => true,
        }
    }

    /// The tools that the model may call.
    pub fn tools(self) -> Vec<Tool> {
        match self {
            Self::Calculator => Calculator::tools(),
            Self::GuessNumber => GuessNumber::tools(),
        }
    }

    /// Begins an episode of a task, a JSON object of the row's columns.
    ///
    /// # Errors
    /// A task that the environment cannot do.
    pub fn open(self, task: &[u8], seed: u64) -> Result<Box<dyn Environment>, TaskError> {
        Ok(match self {
            Self::Calculator => Box::new(Calculator::new()),
            Self::GuessNumber => Box::new(GuessNumber::new(task, seed)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_environment_has_a_name_and_tools_with_schemas() {
        for environment in BuiltIn::ALL {
            assert_eq!(BuiltIn::named("data.environment", environment.name()), Ok(environment));
            for tool in environment.tools() {
                assert!(tool.parameters["properties"].is_object() && !tool.description.is_empty(), "{}", tool.name);
                assert_eq!(tool.function()["function"]["name"], tool.name.as_str());
            }
        }
        let error = BuiltIn::named("data.environment", "calculater").unwrap_err().to_string();
        assert_eq!(error, "data.environment is \"calculater\", allowed: one of calculator, guess-number");
    }
}
