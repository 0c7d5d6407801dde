//! The shapes in which data sets are published.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::DataRow;

/// The shape of a row, by its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// `prompt` and `reward_model.ground_truth`, as verl has them (DAPO-Math-17k).
    Verl,
    /// `problem` or `question` with an answer (Polaris, MATH, GSM8K).
    Pairs,
    /// `prompt` with `label` or another answer.
    PromptAndLabel,
    /// A question with tests, as LiveCodeBench publishes it.
    LiveCodeBench,
    /// `prompt` or another text with `tests`.
    PromptAndTests,
    /// `custom`: a task for a custom verifier.
    Custom,
    /// Columns that the settings name.
    Named,
    Unknown,
}

impl Shape {
    /// The shape of a row whose columns have their usual names.
    pub(crate) fn of(row: &DataRow) -> Self {
        let has = |path: &str| row.get(path).is_some();
        let tests = |parent: &str| {
            ["public_test_cases", "private_test_cases"].iter().any(|name| has(&format!("{parent}{name}")))
        };
        if has("custom") {
            Self::Custom
        } else if tests("") || tests("question.") {
            Self::LiveCodeBench
        } else if has("tests") || has("input_output") || has("test_cases") {
            Self::PromptAndTests
        } else if has("reward_model.ground_truth") {
            Self::Verl
        } else if has("prompt") {
            Self::PromptAndLabel
        } else if has("problem") || has("question") {
            Self::Pairs
        } else {
            Self::Unknown
        }
    }

    /// Name of the shape in logs and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Verl => "verl",
            Self::Pairs => "pairs",
            Self::PromptAndLabel => "prompt-and-label",
            Self::LiveCodeBench => "live-code-bench",
            Self::PromptAndTests => "prompt-and-tests",
            Self::Custom => "custom",
            Self::Named => "named",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_say_which_shape_it_is() {
        let shape = |json: &str| Shape::of(&DataRow::parse(1, json).unwrap());
        for (json, expected) in [
            (r#"{"prompt": [], "ability": "math", "reward_model": {"ground_truth": "1"}}"#, Shape::Verl),
            (r#"{"problem": "a", "answer": "1", "difficulty": "3/8"}"#, Shape::Pairs),
            (r#"{"question": "a", "answer": "b #### 1"}"#, Shape::Pairs),
            (r#"{"prompt": "a", "label": 1}"#, Shape::PromptAndLabel),
            (r#"{"question_content": "a", "private_test_cases": "eJx"}"#, Shape::LiveCodeBench),
            (r#"{"question": {"public_test_cases": "[]"}}"#, Shape::LiveCodeBench),
            (r#"{"prompt": "a", "custom": {"endpoint": "judge"}}"#, Shape::Custom),
            (r#"{"prompt": "a", "tests": []}"#, Shape::PromptAndTests),
            (r#"{"text": "a"}"#, Shape::Unknown),
        ] {
            assert_eq!(shape(json), expected, "{json}");
            assert_eq!(serde_json::to_value(expected).unwrap(), expected.to_string());
        }
    }
}
