//! What the numbers of a benchmark are: accuracies, or mean rewards.

use serde::{Deserialize, Serialize};

/// What the numbers of a benchmark are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// The mean of *correct*.
    #[default]
    Accuracy,
    /// The mean reward, where nobody says which answers are correct.
    Reward,
}

impl Quantity {
    /// What people call it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::Reward => "mean reward",
        }
    }
}
