//! The judge of a worker: items of its verifier, and mathematical answers whose rule is undecided.

use evenkeel_judge::{DefaultRecord, Judge, JudgeError, JudgeSettings, Judged, Judgement, NoVerdict, Question};
use evenkeel_math::Reason;
use evenkeel_proto::Label;
use evenkeel_proto::v1::verify_item::{Answer, Task};
use evenkeel_proto::v1::{InvalidReason, Outcome, Verdict, VerifyItem};
use serde_json::Value;

use crate::error::RewardError;
use crate::settings::RewardSettings;
use crate::verifier::with_thinking;

/// Reason of verdicts that a judge gave.
const JUDGED: &str = "judged";
/// Most characters of a reason.
const MAX_DETAIL: usize = 400;

/// A judge, and which items it judges.
#[derive(Clone)]
pub(crate) struct RubricJudge(Judge);

impl RubricJudge {
    /// The judge of the settings, if they have one.
    ///
    /// # Errors
    /// A file, key or record that cannot be used.
    pub(crate) fn open(settings: &RewardSettings) -> Result<Option<Self>, RewardError> {
        let Some(judge) = &settings.judge else { return Ok(None) };
        let place = settings.judge_records.as_deref().map_or(DefaultRecord::Required, DefaultRecord::In);
        opened(judge, place).map(Some)
    }

    fn checked(settings: &RewardSettings) -> Result<Option<Self>, RewardError> {
        let Some(judge) = &settings.judge else { return Ok(None) };
        let checked = opened(judge, DefaultRecord::Never)?;
        judge.check_record().map_err(RewardError::Judge)?;
        Ok(Some(checked))
    }

    /// Whether it is a custom verifier.
    pub(crate) fn is_verifier(&self) -> bool {
        !self.0.settings().verifier.is_empty()
    }

    /// Whether it is the verifier that an item names.
    pub(crate) fn is_verifier_of(&self, item: &VerifyItem) -> bool {
        matches!(&item.task, Some(Task::Custom(task)) if self.is_verifier() && task.verifier == self.0.settings().verifier)
    }

    /// Names of the components that its verdicts have: the criteria, where there are several.
    pub(crate) fn components(&self) -> Vec<String> {
        let names: Vec<String> = self.0.criteria().map(str::to_owned).collect();
        if names.len() > 1 { names } else { Vec::new() }
    }

    /// What to ask about a mathematical answer if the rule turns out to be undecided. `None` where the judge is not
    /// asked then.
    pub(crate) fn doubt(&self, item: &VerifyItem) -> Option<Question> {
        let Some(Task::Math(task)) = item.task.as_ref().filter(|_| self.0.settings().undecided) else { return None };
        let golds: Vec<&str> = std::iter::once(&task.gold).chain(&task.alternatives).map(String::as_str).collect();
        let answer = final_answer(item)?;
        Some(Question { prompt: task.prompt.clone().unwrap_or_default(), reference: Some(golds.join("\n")), answer })
    }

    /// Decides an answer whose rule is undecided. Any other verdict stands as it is.
    pub(crate) async fn decide(&self, verdict: Verdict, doubt: Option<Question>) -> Verdict {
        match doubt.filter(|_| verdict.outcome() == Outcome::Undecided) {
            None => verdict,
            Some(question) => {
                let Verdict { id, worker, extracted, canonical, copies_checked, .. } = verdict;
                let decided = self.verdict_of(id, self.0.judge(question).await);
                Verdict { worker, extracted, canonical, copies_checked, ..decided }
            }
        }
    }

    /// The verdict on an item of its verifier.
    pub(crate) async fn verdict(&self, item: VerifyItem) -> Verdict {
        let Some(answer) = final_answer(&item) else {
            return Verdict::judged(item.id, Outcome::NoAnswer, Reason::UnclosedThinking.code(), 0.0);
        };
        let payload = match &item.task {
            Some(Task::Custom(task)) => serde_json::from_slice(&task.payload).unwrap_or_default(),
            _ => Value::Null,
        };
        match self.0.settings().question(&payload, answer) {
            Ok(question) => self.verdict_of(item.id, self.0.judge(question).await),
            Err(error) => Verdict::refused(item.id, error),
        }
    }

    fn verdict_of(&self, id: String, judgement: Judgement) -> Verdict {
        let Judged { score, criteria, .. } = match judgement {
            Ok(judged) => judged,
            Err(NoVerdict { failure, detail }) => {
                let detail: String = detail.chars().take(MAX_DETAIL).collect();
                // Another attempt is the judge's own business.
                let invalid = Verdict::invalid(id, InvalidReason::AttemptsExhausted, detail);
                return Verdict { reason_code: failure.label().to_owned(), ..invalid };
            }
        };
        let outcome = if score >= 1.0 { Outcome::Correct } else { Outcome::Incorrect };
        let shown: Vec<String> = criteria.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let detail: String = shown.join(", ").chars().take(MAX_DETAIL).collect();
        let components = if criteria.len() > 1 { criteria.into_iter().collect() } else { Default::default() };
        Verdict { components, detail, ..Verdict::judged(id, outcome, JUDGED, score) }
    }
}

fn opened(settings: &JudgeSettings, place: DefaultRecord<'_>) -> Result<RubricJudge, RewardError> {
    Judge::open(settings, place).map(RubricJudge).map_err(|error| match error {
        JudgeError::Setting(error) => RewardError::Setting(error.within("judge")),
        error => RewardError::Judge(error),
    })
}

/// Reads the files, the key and the shared record of the judge, if the settings have one. Calls nobody and creates
/// nothing. Returns the names of the components that its verdicts have.
///
/// # Errors
/// A file, key or record that cannot be used.
pub fn check_judge(settings: &RewardSettings) -> Result<Vec<String>, RewardError> {
    Ok(RubricJudge::checked(settings)?.map(|judge| judge.components()).unwrap_or_default())
}

/// The answer after thinking. `None` where thinking never ends.
fn final_answer(item: &VerifyItem) -> Option<String> {
    match with_thinking(item.answer.clone()?, item.opened_thinking) {
        Answer::Extracted(text) => Some(text),
        Answer::Completion(text) => evenkeel_thinking::answer(&text).map(|answer| answer.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_what_follows_thinking() {
        let item = |text: &str, opened_thinking| VerifyItem {
            answer: Some(Answer::Completion(text.to_owned())),
            opened_thinking,
            ..VerifyItem::default()
        };
        assert_eq!(final_answer(&item("<think>6?</think> 5", false)).unwrap(), "5");
        assert_eq!(final_answer(&item("6?</think> 5", true)).unwrap(), "5");
        assert_eq!((final_answer(&item("<think>6?", false)), final_answer(&item("6?", true))), (None, None));
    }
}
