//! One check, without Python: a completion against a gold answer, or against several of which any is right.

use std::borrow::Cow;

use evenkeel_math::extract::{Extracted, extract};
use evenkeel_math::{CheckInput, CheckOutcome, Gold, Reason, Rules, Value};

/// What a check found, with its own texts.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    /// Why the check ended as it did.
    pub(crate) reason: Reason,
    /// The final answer as written.
    pub(crate) extracted: Option<Box<str>>,
    /// The final answer as parsed.
    pub(crate) value: Option<Value>,
    /// Whether an answer copied from the task would have been recognised.
    pub(crate) copies_checked: bool,
    /// What is wrong with the gold answer.
    pub(crate) detail: Option<Box<str>>,
}

impl Judged {
    fn bad_gold(reason: Reason, detail: &str) -> Self {
        Self { reason, extracted: None, value: None, copies_checked: false, detail: Some(detail.into()) }
    }
}

/// One gold answer; `None` if it has a lone surrogate.
pub(crate) type GoldText<'a> = Option<&'a str>;

/// Checks a completion.
pub(crate) fn judge(completion: &str, golds: &[GoldText<'_>], prompt: Option<&str>, rules: &Rules) -> Judged {
    let mut best: Option<Judged> = None;
    for gold in golds {
        let judged = judge_one(completion, *gold, prompt, rules);
        let is_correct = judged.reason.outcome() == CheckOutcome::Equal;
        let is_invalid = |judged: &Judged| judged.reason.outcome() == CheckOutcome::BadGold;
        // As the reward service decides: an unreadable gold answer is irrelevant if there is a readable one, and a copy
        // says more than a difference.
        if is_correct || judged.reason == Reason::Copied || best.as_ref().is_none_or(is_invalid) {
            best = Some(judged);
        }
        if is_correct {
            break;
        }
    }
    best.unwrap_or_else(|| Judged::bad_gold(Reason::GoldEmpty, "there is no gold answer"))
}

fn judge_one(completion: &str, gold: GoldText<'_>, prompt: Option<&str>, rules: &Rules) -> Judged {
    let Some(gold) = gold else {
        return Judged::bad_gold(Reason::GoldHiddenCharacters, "the gold answer contains a lone surrogate");
    };
    match Gold::read(gold, rules) {
        Err(bad) => Judged::bad_gold(bad.reason(), &bad.to_string()),
        Ok(gold) => {
            let verdict = gold.check_for(prompt, CheckInput::Completion(completion), rules);
            Judged {
                reason: verdict.reason,
                extracted: verdict.extracted.map(|text| text.into_owned().into_boxed_str()),
                value: verdict.value,
                copies_checked: verdict.copies_checked,
                detail: None,
            }
        }
    }
}

/// The final answer as written, as a verdict has it.
pub(crate) fn answer<'a>(completion: &'a str, rules: &Rules) -> Option<Cow<'a, str>> {
    match extract(completion, rules) {
        Ok(found) if found.bytes() > rules.limits.max_answer_bytes => None,
        Ok(Extracted::One(answer)) => Some(Cow::Borrowed(answer.trim())),
        Ok(Extracted::Several { answers, .. }) => {
            Some(Cow::Owned(answers.iter().map(|answer| answer.trim()).collect::<Vec<_>>().join(", ")))
        }
        Err(_) => None,
    }
}
