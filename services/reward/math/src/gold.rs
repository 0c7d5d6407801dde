//! A gold answer, and checks against it.

use std::borrow::Cow;

use crate::extract::{Found, extract};
use crate::parse::{ParseError, parse};
use crate::{Fuel, Policy, Reason, Value, Verdict, equality};

/// What is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submission<'a> {
    /// A whole output; its final answer is extracted.
    Completion(&'a str),
    /// A final answer alone, taken as it is.
    Extracted(&'a str),
}

/// A gold answer that was read once and may be checked against often.
#[derive(Debug, Clone, PartialEq)]
pub struct Gold {
    value: Value,
}

/// A gold answer that nothing can be checked against: a defect of the data set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadGold {
    /// It says nothing.
    #[error("the gold answer is empty")]
    Empty,
    /// It is longer than the policy's limit.
    #[error("the gold answer has {bytes} bytes, allowed: at most {max}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Its braces do not close.
    #[error("the gold answer has a brace without its partner")]
    Unbalanced,
    /// It divides by zero.
    #[error("the gold answer divides by zero")]
    Undefined,
    /// A character that cannot be seen or that turns the text around.
    #[error("the gold answer holds the hidden character U+{:04X}", u32::from(*.0))]
    HiddenCharacter(char),
    /// Reading it takes too many steps.
    #[error("the gold answer cannot be read within the fuel of a check")]
    OutOfFuel,
}

impl BadGold {
    /// The reason of verdicts against it.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Empty => Reason::GoldEmpty,
            Self::TooLong { .. } => Reason::GoldTooLong,
            Self::Unbalanced => Reason::GoldUnbalanced,
            Self::Undefined => Reason::GoldUndefined,
            Self::HiddenCharacter(_) => Reason::GoldHiddenCharacters,
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
            ParseError::OutOfFuel => Self::OutOfFuel,
        }
    }
}

/// The reason of a verdict on an answer that cannot be read.
fn unreadable(error: ParseError) -> Reason {
    match error {
        ParseError::Empty => Reason::EmptyAnswer,
        ParseError::Unbalanced => Reason::UnbalancedAnswer,
        ParseError::Undefined => Reason::UndefinedAnswer,
        ParseError::HiddenCharacter(_) => Reason::HiddenCharacters,
        ParseError::OutOfFuel => Reason::OutOfFuel,
    }
}

impl Gold {
    /// Reads a gold answer.
    pub fn read(text: &str, policy: &Policy) -> Result<Self, BadGold> {
        let max = policy.limits.max_answer_bytes;
        if text.len() > max {
            return Err(BadGold::TooLong { bytes: text.len(), max });
        }
        let value = parse(text, &mut Fuel::new(policy.limits.fuel))?;
        Ok(Self { value })
    }

    /// What it is.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Judges one answer.
    pub fn check<'a>(&self, submission: Submission<'a>, policy: &Policy) -> Verdict<'a> {
        let found = match submission {
            Submission::Extracted(answer) => Ok(Found::One(answer)),
            Submission::Completion(text) => extract(text, policy),
        };
        let found = match found {
            Ok(found) => found,
            Err(none) => return Verdict::bare(none.reason()),
        };
        if found.bytes() > policy.limits.max_answer_bytes {
            return Verdict::bare(Reason::AnswerTooLong);
        }
        let mut fuel = Fuel::new(policy.limits.fuel);
        let (extracted, value) = read(found, &mut fuel);
        match value {
            Ok(value) => {
                let reason = equality::compare(&self.value, &value, policy, &mut fuel);
                Verdict { reason, extracted: Some(extracted), value: Some(value) }
            }
            Err(error) => Verdict { reason: unreadable(error), extracted: Some(extracted), value: None },
        }
    }
}

/// Reads what was found; neighbouring boxes are one list.
fn read<'a>(found: Found<'a>, fuel: &mut Fuel) -> (Cow<'a, str>, Result<Value, ParseError>) {
    let answers = match found {
        Found::One(answer) => return (Cow::Borrowed(answer.trim()), parse(answer, fuel)),
        Found::Several(answers) => answers,
    };
    let extracted = Cow::Owned(answers.iter().map(|answer| answer.trim()).collect::<Vec<_>>().join(", "));
    let mut items = Vec::with_capacity(answers.len());
    for answer in answers {
        match parse(answer, fuel) {
            Ok(Value::List(more)) => items.extend(more),
            Ok(item) => items.push(item),
            Err(error) => return (extracted, Err(error)),
        }
    }
    (extracted, Ok(Value::List(items)))
}

/// Judges one answer against a gold one that is used once. A gold answer that cannot be read is the verdict's reason.
pub fn check<'a>(gold: &str, submission: Submission<'a>, policy: &Policy) -> Verdict<'a> {
    match Gold::read(gold, policy) {
        Ok(gold) => gold.check(submission, policy),
        Err(bad) => Verdict::bare(bad.reason()),
    }
}
