//! Why a judge gave no verdict, as reason codes of verdicts say it.

use crate::Label;
use crate::v1::Verdict;

/// Why a judge, a model that scores answers, gave no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JudgeFailure {
    /// The reply is empty, or a refusal.
    NoAnswer,
    /// The reply was cut off at `max_tokens`.
    CutOff,
    /// The reply is not what the parser asks for: prose, another language, a criterion too many or too few.
    WrongFormat,
    /// The reply scores the answer, or one of the criteria, twice.
    TwoScores,
    /// A score is not from 0 to 1.
    OutOfRange,
    /// The call took too long.
    Timeout,
    /// The endpoint cannot be reached, or fails.
    Unreachable,
    /// The endpoint limits the rate of calls, and did not take this one in time.
    RateLimited,
    /// The endpoint refuses the call, for example the key or the model.
    Refused,
    /// The budget of calls or tokens is used up.
    Budget,
    /// The answer has no recorded verdict, and no call may be made.
    NotRecorded,
    /// The verdict could not be written to the record, or the record cannot be read.
    Record,
}

impl JudgeFailure {
    /// What the reason means, for the reference.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::NoAnswer => "the reply is empty, or a refusal",
            Self::CutOff => "the reply was cut off at `sampling.max_tokens`",
            Self::WrongFormat => {
                "the reply is not what the parser asks for: prose, another language, a criterion too many or too few"
            }
            Self::TwoScores => "the reply scores the answer or a criterion twice",
            Self::OutOfRange => "a score is not from 0 to 1",
            Self::Timeout => "the call took longer than `timeout`",
            Self::Unreachable => "the endpoint cannot be reached, or failed for `retry_for`",
            Self::RateLimited => "the endpoint limits the rate of calls and did not take this one within `retry_for`",
            Self::Refused => "the endpoint refuses the call, for example the key or the model",
            Self::Budget => "the budget of calls or tokens is used up; the run stops with a checkpoint",
            Self::NotRecorded => "the answer has no recorded verdict, and `record_only` forbids calls",
            Self::Record => "the record of verdicts cannot be read or written",
        }
    }
}

impl Label for JudgeFailure {
    const ALL: &'static [Self] = &[
        Self::NoAnswer,
        Self::CutOff,
        Self::WrongFormat,
        Self::TwoScores,
        Self::OutOfRange,
        Self::Timeout,
        Self::Unreachable,
        Self::RateLimited,
        Self::Refused,
        Self::Budget,
        Self::NotRecorded,
        Self::Record,
    ];

    /// The reason code.
    fn label(self) -> &'static str {
        match self {
            Self::NoAnswer => "judge_no_answer",
            Self::CutOff => "judge_cut_off",
            Self::WrongFormat => "judge_wrong_format",
            Self::TwoScores => "judge_two_scores",
            Self::OutOfRange => "judge_out_of_range",
            Self::Timeout => "judge_timeout",
            Self::Unreachable => "judge_unreachable",
            Self::RateLimited => "judge_rate_limited",
            Self::Refused => "judge_refused",
            Self::Budget => "judge_budget",
            Self::NotRecorded => "judge_not_recorded",
            Self::Record => "judge_record",
        }
    }
}

impl Verdict {
    /// Why a judge gave no verdict. `None` for a verdict that stands, and for one that is invalid for another reason.
    pub fn judge_failure(&self) -> Option<JudgeFailure> {
        if self.is_valid() { None } else { JudgeFailure::from_label(&self.reason_code) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{InvalidReason, Outcome};

    #[test]
    fn a_reason_code_counts_only_where_there_is_no_verdict() {
        for failure in JudgeFailure::ALL {
            let reason_code = failure.label().to_owned();
            let invalid = Verdict::invalid("a", InvalidReason::AttemptsExhausted, "words");
            let invalid = Verdict { reason_code: reason_code.clone(), ..invalid };
            assert_eq!(invalid.judge_failure(), Some(*failure));
            assert_eq!(invalid.reason_with_detail(), format!("{}: words", failure.label()));
            assert_eq!(Verdict::judged("a", Outcome::Correct, reason_code, 1.0).judge_failure(), None);
        }
    }
}
