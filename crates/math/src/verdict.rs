//! The result of a check, with its reason.

use std::borrow::Cow;
use std::fmt;

use crate::Value;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CheckOutcome {
    /// The answer equals the gold one.
    Equal,
    /// The answer differs from the gold one.
    NotEqual,
    /// Neither equality nor difference was proved within the limits. Never rewarded.
    Undecided,
    /// The completion has no final answer.
    NoAnswer,
    /// The gold answer cannot be read: a defect of the data set, not of the answer.
    BadGold,
}

impl CheckOutcome {
    /// Name of the outcome in snake case.
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
    ($($outcome:ident { $($(#[doc = $doc:literal])+ $reason:ident => $code:literal,)+ })+) => {
        /// Why a check ended as it did; determines the [`CheckOutcome`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($($(#[doc = $doc])+ $reason,)+)+
        }

        impl Reason {
            /// Every reason, in the order of the variants.
            pub const ALL: &'static [Self] = &[$($(Self::$reason,)+)+];

            /// Stable code of the reason in snake case.
            pub fn code(self) -> &'static str {
                match self { $($(Self::$reason => $code,)+)+ }
            }

            /// Meaning, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $($(Self::$reason => concat!($($doc),+).trim_ascii(),)+)+ }
            }

            /// The outcome that it stands for.
            pub fn outcome(self) -> CheckOutcome {
                match self { $($(Self::$reason => CheckOutcome::$outcome,)+)+ }
            }
        }
    };
}

reasons! {
    Equal {
        /// Equal integers on both sides.
        EqualInteger => "equal_integer",
        /// Equal fractions, however they are written.
        EqualRational => "equal_rational",
        /// Equal numbers, at least one side as a decimal.
        EqualDecimal => "equal_decimal",
        /// The shorter decimal is the other number rounded.
        EqualRounded => "equal_rounded",
        /// Equal numbers if the percent sign on one side is ignored or read as a hundredth.
        EqualPercent => "equal_percent",
        /// Equal sums of square roots.
        EqualRadical => "equal_radical",
        /// Equal expressions, operation by operation.
        EqualForm => "equal_form",
        /// Equal modulo two primes at pseudo-random points.
        EqualIdentity => "equal_identity",
        /// Equal to sixty digits at several points.
        EqualEnclosure => "equal_enclosure",
        /// Equal amounts of one unit.
        EqualQuantity => "equal_quantity",
        /// Equal digits in one base.
        EqualDigits => "equal_digits",
        /// Infinity of the same sign on both sides.
        EqualInfinity => "equal_infinity",
        /// Equal ratios, or equal times of day.
        EqualRatio => "equal_ratio",
        /// Equal items in equal order.
        EqualTuple => "equal_tuple",
        /// Equal items in a set.
        EqualSet => "equal_set",
        /// Equal sets of real numbers.
        EqualRegion => "equal_region",
        /// Matrices with equal cells.
        EqualMatrix => "equal_matrix",
        /// Equivalent equations or inequalities.
        EqualRelation => "equal_relation",
        /// The letter of the right choice.
        EqualChoice => "equal_choice",
        /// Lists with equal items.
        EqualList => "equal_list",
        /// Texts with one canonical spelling.
        EqualText => "equal_text",
    }
    NotEqual {
        /// The two numbers differ.
        DifferentNumber => "different_number",
        /// The two expressions differ.
        DifferentExpression => "different_expression",
        /// Different brackets around two items, which may be the endpoints of an interval.
        DifferentBrackets => "different_brackets",
        /// Digits in different bases.
        DifferentBase => "different_base",
        /// The sets of real numbers differ.
        DifferentRegion => "different_region",
        /// Another equation or inequality, or one about another quantity.
        DifferentRelation => "different_relation",
        /// A chain of numbers that are not equal, such as `42 = 7`.
        FalseChain => "false_chain",
        /// An unevaluated expression that stands in the task; it equals the gold answer.
        Copied => "copied",
        /// The letter of another choice.
        DifferentChoice => "different_choice",
        /// A decimal that is correct as far as it goes but has too few digits.
        TooFewDigits => "too_few_digits",
        /// The number of items differs.
        DifferentCount => "different_count",
        /// An item has no counterpart in the gold answer.
        DifferentItem => "different_item",
        /// The two units differ.
        DifferentUnit => "different_unit",
        /// A unit that the rules require is missing.
        MissingUnit => "missing_unit",
        /// The two texts differ.
        DifferentText => "different_text",
        /// The two sides are of different kinds, such as a number and a list.
        DifferentKind => "different_kind",
        /// The answer divides by zero.
        UndefinedAnswer => "undefined_answer",
        /// The answer has unbalanced braces.
        UnbalancedAnswer => "unbalanced_answer",
        /// The answer has invisible characters or characters that change the direction of text.
        HiddenCharacters => "hidden_characters",
        /// The answer has digits of an unsupported script, or digits with combining marks.
        UnreadableDigits => "unreadable_digits",
        /// The answer is longer than the limit.
        AnswerTooLong => "answer_too_long",
    }
    Undecided {
        /// The check exceeded its steps.
        OutOfFuel => "out_of_fuel",
        /// No precision separated the values, and equality was not proved.
        NotSeparated => "not_separated",
        /// A part of the answer is neither read as mathematics nor known to be harmless, such as a word beside a
        /// number.
        NotUnderstood => "not_understood",
        /// The text after the answer takes it back, or gives another one.
        TakenBack => "taken_back",
        /// A function that cannot be evaluated.
        Unsupported => "unsupported",
        /// Numbers or lists too large to compare exactly.
        TooLarge => "too_large",
    }
    NoAnswer {
        /// The completion is empty.
        EmptyCompletion => "empty_completion",
        /// `<think>` was never closed.
        UnclosedThinking => "unclosed_thinking",
        /// Nothing in the text is marked as the answer.
        NothingMarked => "nothing_marked",
        /// The last box is empty.
        EmptyBox => "empty_box",
        /// The marked answer is empty.
        EmptyAnswer => "empty_answer",
        /// More adjacent boxes than a list may have.
        TooManyBoxes => "too_many_boxes",
    }
    BadGold {
        /// The gold answer is empty.
        GoldEmpty => "gold_empty",
        /// The gold answer is longer than the limit.
        GoldTooLong => "gold_too_long",
        /// The gold answer has unbalanced braces.
        GoldUnbalanced => "gold_unbalanced",
        /// The gold answer divides by zero.
        GoldUndefined => "gold_undefined",
        /// The gold answer has invisible characters or characters that change the direction of text.
        GoldHiddenCharacters => "gold_hidden_characters",
        /// The gold answer has digits of an unsupported script, or digits with combining marks.
        GoldUnreadableDigits => "gold_unreadable_digits",
        /// Reading it exceeds the steps of a check.
        GoldOutOfFuel => "gold_out_of_fuel",
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// The result of a check with the answer it is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict<'a> {
    /// Why the check ended as it did.
    pub reason: Reason,
    /// The final answer as written. `None` if there is none.
    pub extracted: Option<Cow<'a, str>>,
    /// The final answer as parsed. `None` if it could not be read.
    pub value: Option<Value>,
    /// Whether an answer copied from the task would have been recognised: the task's text was known and the rules ask
    /// for it.
    pub copies_checked: bool,
}

impl Verdict<'_> {
    /// A verdict without an answer.
    pub(crate) fn without_answer(reason: Reason) -> Self {
        Self { reason, extracted: None, value: None, copies_checked: false }
    }

    /// The outcome that the reason stands for.
    pub fn outcome(&self) -> CheckOutcome {
        self.reason.outcome()
    }

    /// Whether the answer earns its reward.
    pub fn is_equal(&self) -> bool {
        self.outcome() == CheckOutcome::Equal
    }

    /// The final answer in canonical form. `None` if it could not be read.
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
            assert_eq!(reason.outcome() == CheckOutcome::Equal, reason.code().starts_with("equal_"));
            assert_eq!(reason.outcome() == CheckOutcome::BadGold, reason.code().starts_with("gold_"));
        }
    }
}
