//! Answers and completions with the verdict that each must have.

use evenkeel_math::{CheckInput, Rules, check};

#[track_caller]
fn judged<'a>(gold: &str, rules: &Rules, answers: &[&'a str], input: fn(&'a str) -> CheckInput<'a>, expected: bool) {
    for answer in answers {
        let verdict = check(gold, input(answer), rules);
        let reason = verdict.reason;
        let extracted = &verdict.extracted;
        assert_eq!(verdict.is_equal(), expected, "{gold} and {answer:?}: {reason} ({extracted:?})");
    }
}

/// Extracted answers that are equal to the gold answer, and that are not.
#[track_caller]
pub(crate) fn all(gold: &str, same: &[&str], other: &[&str]) {
    judged(gold, &Rules::default(), same, CheckInput::Extracted, true);
    judged(gold, &Rules::default(), other, CheckInput::Extracted, false);
}

/// Whole completions that are right, and that are not.
#[track_caller]
pub(crate) fn completions(gold: &str, rules: &Rules, right: &[&str], wrong: &[&str]) {
    judged(gold, rules, right, CheckInput::Completion, true);
    judged(gold, rules, wrong, CheckInput::Completion, false);
}
