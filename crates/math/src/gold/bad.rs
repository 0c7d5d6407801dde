//! A gold answer or an answer that cannot be read.

use evenkeel_errors::FieldError;

use crate::Reason;
use crate::parse::ParseError;

/// A gold answer that cannot be used: a defect of the data set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadGold {
    /// The gold answer is empty.
    #[error("the gold answer is empty")]
    Empty,
    /// The gold answer is longer than the rules' limit.
    #[error(transparent)]
    TooLong(#[from] FieldError),
    /// The gold answer has unbalanced braces.
    #[error("the gold answer has an unmatched brace")]
    Unbalanced,
    /// The gold answer divides by zero.
    #[error("the gold answer divides by zero")]
    Undefined,
    /// An invisible character, or one that changes the direction of text.
    #[error("the gold answer contains the hidden character U+{:04X}", u32::from(*.0))]
    HiddenCharacter(char),
    /// A digit of an unsupported script, or a combining mark on a digit.
    #[error(
        "the gold answer contains U+{:04X}, a digit of another script or a combining mark on a digit",
        u32::from(*.0)
    )]
    UnreadableDigit(char),
    /// Reading it exceeds the steps of a check.
    #[error("the gold answer cannot be read within the fuel of a check")]
    OutOfFuel,
}

impl BadGold {
    /// The reason of verdicts against it.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Empty => Reason::GoldEmpty,
            Self::TooLong(_) => Reason::GoldTooLong,
            Self::Unbalanced => Reason::GoldUnbalanced,
            Self::Undefined => Reason::GoldUndefined,
            Self::HiddenCharacter(_) => Reason::GoldHiddenCharacters,
            Self::UnreadableDigit(_) => Reason::GoldUnreadableDigits,
            Self::OutOfFuel => Reason::GoldOutOfFuel,
        }
    }
}

impl From<ParseError> for BadGold {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Empty => Self::Empty,
            ParseError::Unbalanced => Self::Unbalanced,
            ParseError::Undefined => Self::Undefined,
            ParseError::HiddenCharacter(character) => Self::HiddenCharacter(character),
            ParseError::UnreadableDigit(character) => Self::UnreadableDigit(character),
            ParseError::OutOfFuel => Self::OutOfFuel,
        }
    }
}

/// The reason of the verdict on an unreadable answer.
pub(super) fn unreadable(error: ParseError) -> Reason {
    match error {
        ParseError::Empty => Reason::EmptyAnswer,
        ParseError::Unbalanced => Reason::UnbalancedAnswer,
        ParseError::Undefined => Reason::UndefinedAnswer,
        ParseError::HiddenCharacter(_) => Reason::HiddenCharacters,
        ParseError::UnreadableDigit(_) => Reason::UnreadableDigits,
        ParseError::OutOfFuel => Reason::OutOfFuel,
    }
}
