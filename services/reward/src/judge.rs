//! The verdict on one item. It reads no clock and keeps no state: the same item has the same verdict on every worker.

use std::borrow::Cow;

use evenkeel_math::{BadGold, Gold, Outcome as MathOutcome, Submission};
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{
    FieldViolation, InvalidReason, MathTask, Outcome, Verdict, VerifyItem, verify_item::Answer, verify_item::Task,
};

use crate::rules;
use crate::settings::{MathConfig, RewardConfig};

/// Why programs are not judged.
const NO_CODE: &str = "verification of programs is not implemented: this worker has no sandbox to run them in";

/// Gives verdicts. Useful without a server, too.
#[derive(Debug, Clone)]
pub struct Judge {
    worker: String,
    max_completion_bytes: usize,
    max_text_bytes: usize,
    math: MathConfig,
}

impl Judge {
    /// With the settings of a worker, which must have been checked.
    pub fn new(config: &RewardConfig) -> Self {
        Self {
            worker: config.name.clone(),
            max_completion_bytes: config.max_completion_bytes,
            max_text_bytes: config.max_text_bytes,
            math: config.math.clone(),
        }
    }

    /// The verdict on one item. It takes CPU time in proportion to the length of the item and does nothing else.
    pub fn verdict(&self, item: VerifyItem) -> Verdict {
        Verdict { worker: self.worker.clone(), ..self.judged(item) }
    }

    fn judged(&self, item: VerifyItem) -> Verdict {
        let VerifyItem { id, answer, task, .. } = item;
        let Some(answer) = answer else {
            return Verdict::refused(id, FieldError::missing("answer", "completion or extracted"));
        };
        let (field, text) = match &answer {
            Answer::Completion(text) => ("completion", text),
            Answer::Extracted(text) => ("extracted", text),
        };
        if let Some(verdict) = too_large(&id, field, text, self.max_completion_bytes) {
            return verdict;
        }
        match task {
            None => Verdict::refused(id, FieldError::missing("task", "math or code")),
            Some(Task::Math(task)) => self.math(id, &answer, &task),
            Some(Task::Code(_)) => Verdict::invalid(id, InvalidReason::Unimplemented, NO_CODE),
        }
    }

    fn math(&self, id: String, answer: &Answer, task: &MathTask) -> Verdict {
        if let Some(verdict) = too_large(&id, "math.gold", &task.gold, self.math.max_answer_bytes) {
            return verdict;
        }
        let policy = match rules::policy(task, &self.math) {
            Ok(policy) => policy,
            Err(error) => return Verdict::refused(id, error.within("math")),
        };
        let gold = match Gold::read(&task.gold, &policy) {
            Ok(gold) => gold,
            Err(error) => return bad_gold(id, &error),
        };
        let submission = match answer {
            Answer::Completion(text) => Submission::Completion(text),
            Answer::Extracted(text) => Submission::Extracted(text),
        };
        let found = gold.check(submission, &policy);
        let outcome = match found.outcome() {
            MathOutcome::Equal => Outcome::Correct,
            MathOutcome::NotEqual => Outcome::Incorrect,
            MathOutcome::Undecided => Outcome::Undecided,
            MathOutcome::NoAnswer => Outcome::NoAnswer,
            // Gold answers that cannot be read were answered above; should one come from here, it is no wrong answer either.
            MathOutcome::BadGold => {
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
            extracted: found.extracted.as_ref().map(|text| self.cut(Cow::as_ref(text))),
            ..Verdict::judged(id, outcome, found.reason.code(), reward)
        }
    }

    /// A text that fits into a verdict.
    fn cut(&self, text: impl Into<String> + AsRef<str>) -> String {
        const ELLIPSIS: char = '…';
        if text.as_ref().len() <= self.max_text_bytes {
            return text.into();
        }
        let end = text.as_ref().floor_char_boundary(self.max_text_bytes - ELLIPSIS.len_utf8());
        let mut cut = text.as_ref()[..end].to_owned();
        cut.push(ELLIPSIS);
        cut
    }
}

/// INVALID where a field is longer than this worker takes. The text itself is not repeated.
fn too_large(id: &str, field: &str, text: &str, max: usize) -> Option<Verdict> {
    if text.len() <= max {
        return None;
    }
    let error = FieldError::new(field, format_args!("{} bytes", text.len()), format!("at most {max} bytes"));
    let invalid = Verdict::invalid(id, InvalidReason::TooLarge, error.to_string());
    Some(Verdict { violations: vec![FieldViolation::from(error)], ..invalid })
}

fn bad_gold(id: String, error: &BadGold) -> Verdict {
    let invalid = Verdict::invalid(id, InvalidReason::BadGold, error.to_string());
    Verdict { reason_code: error.reason().code().to_owned(), ..invalid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let judge = Judge::new(&RewardConfig { max_text_bytes: 16, ..RewardConfig::default() });
        assert_eq!(judge.cut("short"), "short");
        let cut = judge.cut("ä".repeat(100));
        assert_eq!(cut, format!("{}…", "ä".repeat(6)));
    }
}
