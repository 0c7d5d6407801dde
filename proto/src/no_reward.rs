//! Why a reward function gave no reward, as reason codes of verdicts say it.

use crate::Label;
use crate::v1::Verdict;

/// Why a reward function gave no reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoReward {
    /// The function returned `None`, on purpose.
    Abstained,
    /// The function returned NaN, an infinity or a text.
    NotANumber,
    /// The function returned a number outside the range of its settings.
    OutOfRange,
    /// The function raised an exception.
    Exception,
    /// The call took too long.
    Timeout,
    /// The function's process ended, or sent what is no answer.
    Crashed,
    /// The function's file cannot be loaded.
    FileFails,
    /// The function's file is another than at the start.
    FileChanged,
}

impl NoReward {
    /// Whether the function failed; one that abstains does not.
    pub fn is_failure(self) -> bool {
        self != Self::Abstained
    }
}

impl Label for NoReward {
    const ALL: &'static [Self] = &[
        Self::Abstained,
        Self::NotANumber,
        Self::OutOfRange,
        Self::Exception,
        Self::Timeout,
        Self::Crashed,
        Self::FileFails,
        Self::FileChanged,
    ];

    /// The reason code.
    fn label(self) -> &'static str {
        match self {
            Self::Abstained => "reward_none",
            Self::NotANumber => "reward_not_a_number",
            Self::OutOfRange => "reward_out_of_range",
            Self::Exception => "reward_exception",
            Self::Timeout => "reward_timeout",
            Self::Crashed => "reward_crashed",
            Self::FileFails => "reward_file_fails",
            Self::FileChanged => "reward_file_changed",
        }
    }
}

impl Verdict {
    /// Why a reward function gave no reward. `None` for a verdict that stands, and for one that is invalid for another
    /// reason.
    pub fn no_reward(&self) -> Option<NoReward> {
        if self.is_valid() { None } else { NoReward::from_label(&self.reason_code) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{InvalidReason, Outcome};

    #[test]
    fn a_reason_code_counts_only_where_there_is_no_verdict() {
        for reason in NoReward::ALL {
            let reason_code = reason.label().to_owned();
            let invalid = Verdict::invalid("a", InvalidReason::AttemptsExhausted, "");
            let invalid = Verdict { reason_code: reason_code.clone(), ..invalid };
            assert_eq!(invalid.no_reward(), Some(*reason));
            assert_eq!(Verdict::judged("a", Outcome::Correct, reason_code, 1.0).no_reward(), None);
        }
        assert_eq!(Verdict::invalid("a", InvalidReason::Overloaded, "").no_reward(), None);
    }

    #[test]
    fn only_a_function_that_abstains_has_not_failed() {
        let failures = NoReward::ALL.iter().filter(|reason| reason.is_failure());
        assert_eq!(failures.count(), NoReward::ALL.len() - 1);
    }
}
