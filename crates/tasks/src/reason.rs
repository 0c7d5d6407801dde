//! Why a row of a data set yields no prompts: one fixed list, with the names that reports use.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a row yields no prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The row cannot be read: not JSON, no object, not UTF-8, too long, or a field of the wrong type.
    InvalidRow,
    /// None of the columns that hold a prompt.
    MissingPrompt,
    /// A prompt without a text.
    EmptyPrompt,
    /// Messages that are not a conversation: no user message, an unknown role, no content.
    InvalidMessages,
    /// Nothing to judge an answer against.
    MissingGold,
    /// A gold answer without a text.
    EmptyGold,
    /// A gold answer that the verifier cannot read.
    UnreadableGold,
    /// Tests that are absent, not JSON, or without outputs.
    InvalidTests,
    /// A programming question that asks for another language than Python.
    OtherLanguage,
    /// It goes to a verifier that nobody declared. Always refuses the data set: other rows would be no substitute.
    UnknownVerifier,
    /// Another row has the same messages and another gold answer.
    Conflict,
    /// A filter of the settings leaves it out.
    Filtered,
    /// The chat template refuses it, or there is none for its messages.
    Unrenderable,
    /// It leaves no room for a response.
    TooLong,
    /// The same text is among the problems for evaluation.
    InEvaluation,
}

impl Reason {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidRow => "invalid-row",
            Self::MissingPrompt => "missing-prompt",
            Self::EmptyPrompt => "empty-prompt",
            Self::InvalidMessages => "invalid-messages",
            Self::MissingGold => "missing-gold",
            Self::EmptyGold => "empty-gold",
            Self::UnreadableGold => "unreadable-gold",
            Self::InvalidTests => "invalid-tests",
            Self::OtherLanguage => "other-language",
            Self::UnknownVerifier => "unknown-verifier",
            Self::Conflict => "conflict",
            Self::Filtered => "filtered",
            Self::Unrenderable => "unrenderable",
            Self::TooLong => "too-long",
            Self::InEvaluation => "in-evaluation",
        }
    }

    /// Whether the row is at fault, and not only unwanted: such rows are refused where the settings say so.
    pub fn is_fault(self) -> bool {
        !matches!(self, Self::Filtered | Self::TooLong | Self::InEvaluation)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_and_messages_write_a_reason_the_same_way() {
        for reason in [Reason::InvalidRow, Reason::EmptyGold, Reason::InEvaluation, Reason::TooLong] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.to_string());
        }
        assert!(Reason::Conflict.is_fault() && !Reason::Filtered.is_fault());
    }
}
