//! Mathematical answers.

mod rules;

use std::borrow::Cow;

use evenkeel_math::{BadGold, CheckInput, CheckOutcome, Gold, Reason, Rules};
use evenkeel_proto::v1::{InvalidReason, Outcome, Verdict, verify_item::Answer};

use super::MathWork;
use crate::settings::{MathDefaults, RewardSettings};

/// Verifies answers with `evenkeel-math`.
pub(super) struct MathVerifier {
    settings: MathDefaults,
    max_text_bytes: usize,
}

impl MathVerifier {
    pub(super) fn new(settings: &RewardSettings) -> Self {
        Self { settings: settings.math.clone(), max_text_bytes: settings.max_text.bytes_usize() }
    }

    pub(super) fn verdict(&self, MathWork { id, answer, task }: MathWork) -> Verdict {
        let rules = match rules::for_task(&task, &self.settings) {
            Ok(rules) => rules,
            Err(error) => return Verdict::refused(id, error.within("math")),
        };
        let prompt = task.prompt.as_deref().filter(|prompt| !prompt.is_empty());
        let mut best = self.against(&id, &answer, &task.gold, prompt, &rules);
        for gold in &task.alternatives {
            if best.outcome() == Outcome::Correct {
                break;
            }
            let verdict = self.against(&id, &answer, gold, prompt, &rules);
            // An invalid gold answer is irrelevant if there is a valid one, and a copy says more than a difference.
            let is_copy = verdict.reason_code == Reason::Copied.code();
            if verdict.outcome() == Outcome::Correct || best.outcome() == Outcome::Invalid || is_copy {
                best = verdict;
            }
        }
        best
    }

    /// Compares an answer with one gold answer.
    fn against(&self, id: &str, answer: &Answer, gold: &str, prompt: Option<&str>, rules: &Rules) -> Verdict {
        let gold = match Gold::read(gold, rules) {
            Ok(gold) => gold,
            Err(error) => return bad_gold(id, &error),
        };
        let submission = match answer {
            Answer::Completion(text) => CheckInput::Completion(text),
            Answer::Extracted(text) => CheckInput::Extracted(text),
        };
        let found = gold.check_for(prompt, submission, rules);
        let outcome = match found.outcome() {
            CheckOutcome::Equal => Outcome::Correct,
            CheckOutcome::NotEqual => Outcome::Incorrect,
            CheckOutcome::Undecided => Outcome::Undecided,
            CheckOutcome::NoAnswer => Outcome::NoAnswer,
            // Invalid gold answers were handled above. Should one get here, it is not a wrong answer either.
            CheckOutcome::BadGold => {
                return Verdict {
                    reason_code: found.reason.code().to_owned(),
                    ..Verdict::invalid(id, InvalidReason::BadGold, found.reason.code())
                };
            }
        };
        let reward = if outcome == Outcome::Correct { 1.0 } else { 0.0 };
        let detail = match outcome {
            Outcome::Correct => String::new(),
            _ => self.cut(format!("the gold answer is {}", gold.value())),
        };
        Verdict {
            detail,
            canonical: found.canonical().map(|text| self.cut(text)),
            copies_checked: found.copies_checked,
            extracted: found.extracted.as_ref().map(|text| self.cut(Cow::as_ref(text))),
            ..Verdict::judged(id, outcome, found.reason.code(), reward)
        }
    }

    fn cut(&self, text: impl Into<String> + AsRef<str>) -> String {
        super::cut(text, self.max_text_bytes)
    }
}

fn bad_gold(id: &str, error: &BadGold) -> Verdict {
    let invalid = Verdict::invalid(id, InvalidReason::BadGold, error.to_string());
    Verdict { reason_code: error.reason().code().to_owned(), ..invalid }
}
