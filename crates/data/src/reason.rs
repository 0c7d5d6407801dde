//! Why a row of a data set yields no prompts: one fixed list, with the names that reports use.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $reason:ident => $name:literal,)+) => {
        /// Why a row yields no prompts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Reason {
            $($(#[doc = $doc])+ $reason,)+
        }

        impl Reason {
            /// Every reason, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$reason,)+];

            /// Name of the reason in reports.
            pub fn name(self) -> &'static str {
                match self { $(Self::$reason => $name,)+ }
            }

            /// Meaning, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$reason => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

reasons! {
    /// The row cannot be read: not JSON, no object, a key twice, not UTF-8, too long, or a field of the wrong type.
    InvalidRow => "invalid-row",
    /// The row has none of the columns that hold a prompt.
    MissingPrompt => "missing-prompt",
    /// A prompt without a text.
    EmptyPrompt => "empty-prompt",
    /// Messages that are not a conversation: no user message, an unknown role, no content.
    InvalidMessages => "invalid-messages",
    /// The row has nothing to judge an answer against.
    MissingGold => "missing-gold",
    /// A gold answer without a text.
    EmptyGold => "empty-gold",
    /// A gold answer that the verifier cannot read.
    UnreadableGold => "unreadable-gold",
    /// Tests that are absent, not JSON, or without outputs.
    InvalidTests => "invalid-tests",
    /// A programming question that asks for another language than Python.
    OtherLanguage => "other-language",
    /// The row goes to a verifier that nobody declared. Always refuses the data set: other rows would be no substitute.
    UnknownVerifier => "unknown-verifier",
    /// The row names an environment that nobody declared. Always refuses the data set.
    UnknownEnvironment => "unknown-environment",
    /// Another row has the same messages and another gold answer.
    Conflict => "conflict",
    /// A filter of the settings leaves it out.
    Filtered => "filtered",
    /// The chat template refuses it, or there is none for its messages.
    Unrenderable => "unrenderable",
    /// The row's own text spells control tokens of the model, and the settings refuse that.
    ControlText => "control-text",
    /// The prompt leaves no room for a response.
    TooLong => "too-long",
    /// Text that is also among the problems for evaluation.
    InEvaluation => "in-evaluation",
}

impl Reason {
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
