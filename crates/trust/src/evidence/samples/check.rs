//! The named checks of an engine's samples.

/// What is tested of an engine's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SamplerCheck {
    /// Tokens are as likely as the policy says.
    Temperature,
    /// Unlikely tokens come as often as they should.
    Truncation,
    /// Answers end as often as they should.
    EndToken,
    /// The engine's log-probabilities of its tokens are the learner's, but for noise.
    LogProbabilities,
    /// Equal answers to a prompt are as rare as their probability says.
    Copies,
    /// Short, long, likely and unlikely answers come as often as their probability says.
    Answers,
    /// Gaps do not sit on few token ids.
    Rows,
}

impl SamplerCheck {
    pub(crate) const ALL: [Self; 7] = [
        Self::Temperature,
        Self::Truncation,
        Self::EndToken,
        Self::LogProbabilities,
        Self::Copies,
        Self::Answers,
        Self::Rows,
    ];

    /// The name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::Truncation => "truncation",
            Self::EndToken => "end token",
            Self::LogProbabilities => "log-probabilities",
            Self::Copies => "copies",
            Self::Answers => "answers",
            Self::Rows => "rows",
        }
    }

    /// The name in metrics.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::EndToken => "end_token",
            Self::LogProbabilities => "log_probabilities",
            other => other.name(),
        }
    }
}
