//! One row through a custom verifier.

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel_proto::NoReward;
use evenkeel_proto::v1::{FinishReason, Verdict, VerifyItem, verify_item};
use evenkeel_rpc::dispatch::Dispatched;
use tokio::time::timeout;

use super::{TrialFinding, TrialRow};
use crate::clients::VerifierClient;
use crate::error::RunError;
use crate::settings::{ComponentRule, CorrectRule};
use crate::text::Tokenizer;

/// The answer of a row that has none.
const MADE_UP: &str = "1";

/// An answer without anything to be right.
const WRONG: &str = "I do not know";

/// An answer, and whether it has a reward.
struct Tried {
    completion: String,
    refused: Option<Refused>,
    /// The components of its verdict.
    components: BTreeSet<String>,
}

/// Why an answer has no reward.
struct Refused {
    /// Absent where no reward function says so.
    reason: Option<NoReward>,
    words: String,
}

impl Refused {
    fn without_reason(words: String) -> Self {
        Self { reason: None, words }
    }
}

/// Has the answer of the row judged, as it is and in the usual forms, since a function may look for one of them, and a
/// wrong one. No reward is found too low. `field` is the setting that names the verifier. A judge, whose calls cost
/// something, gets the answer as it is alone. `correct` may name a component that verdicts have.
pub(super) async fn judge(
    verifier: &VerifierClient,
    row: &TrialRow,
    field: &str,
    (is_judge, correct): (bool, Option<&CorrectRule>),
    (limit, tokenizer): (Duration, Option<&Tokenizer>),
) -> Result<Vec<TrialFinding>, RunError> {
    let gold = row.answer();
    let answer = gold.as_deref().unwrap_or(MADE_UP);
    let mut tried = Vec::new();
    let forms = [answer.to_owned(), format!("\\boxed{{{answer}}}"), format!("<answer>{answer}</answer>")];
    let most = if is_judge { 1 } else { usize::MAX };
    for (number, completion) in forms.into_iter().chain([WRONG.to_owned()]).take(most).enumerate() {
        let item = VerifyItem {
            token_ids: match tokenizer {
                Some(tokenizer) => tokenizer.encode(&completion)?,
                None => completion.chars().map(u32::from).collect(),
            },
            finish_reason: FinishReason::Stop.into(),
            deadline_ms: Some(limit.as_millis() as u64),
            // A worker may not yet have forgotten the id of the answer before it.
            ..row.task.verify_item(format!("trial-{number}"), verify_item::Answer::Completion(completion.clone()))
        };
        tried.push(match verdict(verifier, item, limit).await {
            Ok(verdict) => Tried { completion, refused: None, components: verdict.components.into_keys().collect() },
            Err(refused) => Tried { completion, refused: Some(refused), components: BTreeSet::new() },
        });
    }
    let of_row = if gold.is_some() { "the row's answer" } else { "made up, since the row has no answer" };
    let found = finding(&tried, of_row).into_iter().chain(missing_component(&tried, correct, gold.is_some()));
    let in_words = |finding| {
        let said = |words: String| format!("{field}: row `{}`: {words}", row.id);
        match finding {
            TrialFinding::Problem(words) => TrialFinding::Problem(said(words)),
            TrialFinding::Note(words) => TrialFinding::Note(said(words)),
        }
    };
    Ok(found.map(in_words).collect())
}

/// The verdict on an answer, or why it has no reward.
async fn verdict(verifier: &VerifierClient, item: VerifyItem, limit: Duration) -> Result<Verdict, Refused> {
    let asked = verifier.await_verdict();
    let Ok(Dispatched { result, .. }) = timeout(limit, asked.request(item, 1)).await else {
        return Err(Refused::without_reason(format!("no answer within {}", evenkeel_config::human(limit))));
    };
    match result {
        Err(lost) => Err(Refused::without_reason(lost.to_string())),
        Ok(verdict) => refused(&verdict).map_or(Ok(verdict), Err),
    }
}

fn refused(verdict: &Verdict) -> Option<Refused> {
    let reason = verdict.no_reward();
    match verdict.validate() {
        Err(error) => Some(Refused::without_reason(format!("the verdict violates the protocol: {error}"))),
        Ok(()) if verdict.is_valid() || reason == Some(NoReward::Abstained) => None,
        Ok(()) => {
            // A traceback is for the run.
            let words = verdict.reason_with_detail().lines().next().unwrap_or_default().to_owned();
            Some(Refused { reason, words })
        }
    }
}

fn finding(tried: &[Tried], answer: &str) -> Option<TrialFinding> {
    let refused: Vec<_> = tried.iter().filter_map(|tried| Some((tried, tried.refused.as_ref()?))).collect();
    let (first, Refused { words: why, .. }) = refused.first()?;
    let completions =
        |tried: &[&Tried]| tried.iter().map(|tried| format!("`{}`", tried.completion)).collect::<Vec<_>>();
    let all = completions(&tried.iter().collect::<Vec<_>>());
    if let Some((tried, outside)) = refused.iter().find(|(_, why)| why.reason == Some(NoReward::OutOfRange)) {
        let Refused { words, .. } = outside;
        return Some(TrialFinding::Problem(format!("no reward for the completion `{}`: {words}", tried.completion)));
    }
    if refused.len() == tried.len() {
        return Some(TrialFinding::Problem(format!("no reward for any of {} ({answer}): {why}", all.join(", "))));
    }
    let rewarded = completions(&tried.iter().filter(|tried| tried.refused.is_none()).collect::<Vec<_>>());
    Some(TrialFinding::Note(format!(
        "no reward for the completion `{}` ({answer}), though for {}: {why}. Samples without a reward are left out, and \
         many of them end the run: return a reward for answers in any form",
        first.completion,
        rewarded.join(", ")
    )))
}

/// What is wrong where no verdict has the component that says which answers are correct.
fn missing_component(tried: &[Tried], correct: Option<&CorrectRule>, has_gold: bool) -> Option<TrialFinding> {
    let Some(CorrectRule::Component(ComponentRule { component, .. })) = correct else { return None };
    let mut judged = tried.iter().filter(|tried| tried.refused.is_none()).peekable();
    judged.peek()?;
    let found: BTreeSet<&str> = judged.flat_map(|tried| &tried.components).map(String::as_str).collect();
    if found.contains(component.as_str()) {
        return None;
    }
    let found =
        if found.is_empty() { "no component".to_owned() } else { found.into_iter().collect::<Vec<_>>().join(", ") };
    let words = format!(
        "no verdict has the component `{component}`, by which answers are correct (correct.component); they have {found}"
    );
    // An answer that is made up may lack what others have.
    Some(if has_gold { TrialFinding::Problem(words) } else { TrialFinding::Note(words) })
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::InvalidReason;

    use super::*;

    fn tried(refused: [Option<&str>; 2]) -> Vec<Tried> {
        let tried_one = |(completion, refused): (&str, Option<&str>)| Tried {
            completion: completion.to_owned(),
            refused: refused.map(|words| Refused::without_reason(words.to_owned())),
            components: BTreeSet::new(),
        };
        ["4", "\\boxed{4}"].into_iter().zip(refused).map(tried_one).collect()
    }

    #[test]
    fn a_function_that_fails_of_every_form_is_a_problem_and_of_one_a_note() {
        assert_eq!(finding(&tried([None, None]), "the row's answer"), None);
        let all = finding(&tried([Some("KeyError: 'anwser'"), Some("again")]), "the row's answer");
        let words = "no reward for any of `4`, `\\boxed{4}` (the row's answer): KeyError: 'anwser'";
        assert_eq!(all, Some(TrialFinding::Problem(words.to_owned())));
        let Some(TrialFinding::Note(note)) = finding(&tried([Some("no match"), None]), "the row's answer") else {
            panic!("it has a reward for some")
        };
        assert!(note.contains("completion `4`") && note.contains("though for `\\boxed{4}`: no match"), "{note}");
    }

    #[test]
    fn a_component_that_no_verdict_has_is_a_problem_by_those_that_there_are() {
        let rule =
            |component: &str| CorrectRule::Component(ComponentRule { component: component.to_owned(), at_least: 1.0 });
        let mut answers = tried([None, Some("refused")]);
        answers[0].components = ["right", "short"].map(str::to_owned).into();
        let missing = |name: &str, has_gold: bool| missing_component(&answers, Some(&rule(name)), has_gold);
        let words = "no verdict has the component `acc`, by which answers are correct (correct.component); they have \
                     right, short";
        assert_eq!(missing("acc", true), Some(TrialFinding::Problem(words.to_owned())));
        assert_eq!(missing("acc", false), Some(TrialFinding::Note(words.to_owned())));
        assert_eq!((missing("short", true), missing_component(&answers, None, true)), (None, None));
        let nobody = tried([Some("refused"), Some("refused")]);
        assert_eq!(missing_component(&nobody, Some(&rule("acc")), true), None, "which has another reason");
    }

    #[test]
    fn one_reward_out_of_range_is_a_problem_by_its_code_and_not_by_its_words() {
        let said = "right gave -1, allowed: 0 to 1";
        let invalid = Verdict::invalid("a", InvalidReason::AttemptsExhausted, said);
        let outside = Verdict { reason_code: "reward_out_of_range".to_owned(), ..invalid };
        let mut answers = tried([None, None]);
        answers[1].refused = refused(&outside);
        let words = format!("no reward for the completion `\\boxed{{4}}`: reward_out_of_range: {said}");
        assert_eq!(finding(&answers, "the row's answer"), Some(TrialFinding::Problem(words)));
        let quoted = finding(&tried([None, Some("ValueError: reward_out_of_range")]), "the row's answer");
        assert!(matches!(quoted, Some(TrialFinding::Note(_))), "{quoted:?}");
    }
}
