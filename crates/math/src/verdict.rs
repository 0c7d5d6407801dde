//! What a check found, and why.

use std::borrow::Cow;
use std::fmt;

use crate::Value;

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The answer equals the gold one.
    Equal,
    /// It is another answer.
    NotEqual,
    /// Neither was shown within the bounds. Never a reward.
    Undecided,
    /// There is no final answer.
    NoAnswer,
    /// The gold answer cannot be read: a defect of the data set, which says nothing about the answer.
    BadGold,
}

impl Outcome {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::NotEqual => "not_equal",
            Self::Undecided => "undecided",
            Self::NoAnswer => "no_answer",
            Self::BadGold => "bad_gold",
        }
    }
}

macro_rules! reasons {
    ($($outcome:ident { $($(#[$doc:meta])+ $reason:ident => $code:literal,)+ })+) => {
        /// Why a check ended as it did. It decides the outcome.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($($(#[$doc])+ $reason,)+)+
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$($(Self::$reason,)+)+];

            /// Its stable name.
            pub fn code(self) -> &'static str {
                match self { $($(Self::$reason => $code,)+)+ }
            }

            /// What it means for the answer.
            pub fn outcome(self) -> Outcome {
                match self { $($(Self::$reason => Outcome::$outcome,)+)+ }
            }
        }
    };
}

reasons! {
    Equal {
        /// The same integer.
        EqualInteger => "equal_integer",
        /// The same fraction, however it is written.
        EqualRational => "equal_rational",
        /// The same number, at least one side as a decimal.
        EqualDecimal => "equal_decimal",
        /// The shorter decimal is the other number, rounded.
        EqualRounded => "equal_rounded",
        /// The same number where only one side has a percent sign.
        EqualPercent => "equal_percent",
        /// The same sum of square roots.
        EqualRadical => "equal_radical",
        /// The same expression, operation by operation.
        EqualForm => "equal_form",
        /// The same values modulo two primes, at random points.
        EqualIdentity => "equal_identity",
        /// The same values to sixty digits, at several points.
        EqualEnclosure => "equal_enclosure",
        /// The same amount of the same unit.
        EqualQuantity => "equal_quantity",
        /// The same digits, in a base.
        EqualDigits => "equal_digits",
        /// Infinity on both sides, of the same sign.
        EqualInfinity => "equal_infinity",
        /// The same ratio, or time of the day.
        EqualRatio => "equal_ratio",
        /// The same items in the same order.
        EqualTuple => "equal_tuple",
        /// The same items in a set.
        EqualSet => "equal_set",
        /// The same real numbers.
        EqualRegion => "equal_region",
        /// The same cells.
        EqualMatrix => "equal_matrix",
        /// The same equation or inequality.
        EqualRelation => "equal_relation",
        /// The same choice.
        EqualChoice => "equal_choice",
        /// The same items.
        EqualList => "equal_list",
        /// The same canonical text.
        EqualText => "equal_text",
    }
    NotEqual {
        /// Another number.
        DifferentNumber => "different_number",
        /// An expression with another value.
        DifferentExpression => "different_expression",
        /// Other brackets around two items, which may be the ends of an interval.
        DifferentBrackets => "different_brackets",
        /// Digits in another base.
        DifferentBase => "different_base",
        /// A set of other real numbers.
        DifferentRegion => "different_region",
        /// Another equation or inequality, or one of something else.
        DifferentRelation => "different_relation",
        /// A chain of numbers that are not equal.
        FalseChain => "false_chain",
        /// Another choice.
        DifferentChoice => "different_choice",
        /// A decimal that is right as far as it goes and has too few digits.
        TooFewDigits => "too_few_digits",
        /// Another number of items.
        DifferentCount => "different_count",
        /// An item that the gold answer does not have.
        DifferentItem => "different_item",
        /// Another unit.
        DifferentUnit => "different_unit",
        /// A unit is missing that the policy demands.
        MissingUnit => "missing_unit",
        /// Another text.
        DifferentText => "different_text",
        /// One side is a number, a list or a text, and the other is not.
        DifferentKind => "different_kind",
        /// The answer divides by zero.
        UndefinedAnswer => "undefined_answer",
        /// Braces of the answer that do not close.
        UnbalancedAnswer => "unbalanced_answer",
        /// Characters in the answer that cannot be seen or that turn it around.
        HiddenCharacters => "hidden_characters",
        /// Digits in the answer that are not read: of another script, or with marks on them.
        UnreadableDigits => "unreadable_digits",
        /// The answer is longer than the limit.
        AnswerTooLong => "answer_too_long",
    }
    Undecided {
        /// The check took more steps than it may.
        OutOfFuel => "out_of_fuel",
        /// Values that no precision told apart, and none made the same.
        NotSeparated => "not_separated",
        /// A function that has no values here.
        Unsupported => "unsupported",
        /// Numbers or lists beyond what is compared exactly.
        TooLarge => "too_large",
    }
    NoAnswer {
        /// The completion is empty.
        EmptyCompletion => "empty_completion",
        /// The thinking never ended.
        UnclosedThinking => "unclosed_thinking",
        /// Nothing in the text is marked as the answer.
        NothingMarked => "nothing_marked",
        /// The last box is empty.
        EmptyBox => "empty_box",
        /// What is marked says nothing.
        EmptyAnswer => "empty_answer",
        /// More neighbouring boxes than a list may have.
        TooManyBoxes => "too_many_boxes",
    }
    BadGold {
        /// The gold answer is empty.
        GoldEmpty => "gold_empty",
        /// It is longer than the limit.
        GoldTooLong => "gold_too_long",
        /// Its braces do not close.
        GoldUnbalanced => "gold_unbalanced",
        /// It divides by zero.
        GoldUndefined => "gold_undefined",
        /// It has characters that cannot be seen or that turn it around.
        GoldHiddenCharacters => "gold_hidden_characters",
        /// It has digits that are not read: of another script, or with marks on them.
        GoldUnreadableDigits => "gold_unreadable_digits",
        /// Reading it takes more steps than a check may.
        GoldOutOfFuel => "gold_out_of_fuel",
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// What a check found, with what it found it from.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict<'a> {
    /// Why.
    pub reason: Reason,
    /// The final answer as it was written. `None` where there is none.
    pub extracted: Option<Cow<'a, str>>,
    /// The final answer as it was understood. `None` where it could not be read.
    pub value: Option<Value>,
}

impl Verdict<'_> {
    /// Without an answer.
    pub(crate) fn without_answer(reason: Reason) -> Self {
        Self { reason, extracted: None, value: None }
    }

    /// What was found.
    pub fn outcome(&self) -> Outcome {
        self.reason.outcome()
    }

    /// Whether the answer earns its reward.
    pub fn is_equal(&self) -> bool {
        self.outcome() == Outcome::Equal
    }

    /// The final answer in canonical form. `None` where it could not be read.
    pub fn canonical(&self) -> Option<String> {
        self.value.as_ref().map(Value::to_string)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_unique_and_in_snake_case() {
        let codes: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.code()).collect();
        assert_eq!(codes.len(), Reason::ALL.len());
        assert!(codes.iter().all(|code| code.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase())));
    }

    #[test]
    fn only_equality_is_equal() {
        for reason in Reason::ALL {
            assert_eq!(reason.outcome() == Outcome::Equal, reason.code().starts_with("equal_"));
            assert_eq!(reason.outcome() == Outcome::BadGold, reason.code().starts_with("gold_"));
        }
    }
}
