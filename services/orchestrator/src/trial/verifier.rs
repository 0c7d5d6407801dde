//! One row through a custom verifier.

use std::time::Duration;

use evenkeel_proto::v1::{FinishReason, Verdict, VerifyItem, verify_item};
use evenkeel_rpc::dispatch::Dispatched;
use tokio::time::timeout;

use super::{TrialFinding, TrialRow};
use crate::clients::VerifierClient;
use crate::error::RunError;
use crate::text::Tokenizer;

/// How a verifier says that it has nothing to say of an answer.
const ABSTAINS: &str = "reward_none";

/// The answer of a row that has none.
const MADE_UP: &str = "1";

/// An answer without anything to be right.
const WRONG: &str = "I do not know";

/// Why a reward is refused that the range of the verifier's settings does not have.
const OUT_OF_RANGE: &str = "reward_out_of_range";

/// An answer, and whether it has a reward.
struct Tried {
    completion: String,
    /// Why not.
    refused: Option<String>,
}

/// Has the answer of the row judged, as it is and in the usual forms, since a function may look for one of them, and a
/// wrong one. No reward is found too low. `field` is the setting that names the verifier.
pub(super) async fn judge(
    verifier: &VerifierClient,
    row: &TrialRow,
    field: &str,
    (limit, tokenizer): (Duration, &Tokenizer),
) -> Result<Option<TrialFinding>, RunError> {
    let gold = row.answer();
    let answer = gold.as_deref().unwrap_or(MADE_UP);
    let mut tried = Vec::new();
    let forms = [answer.to_owned(), format!("\\boxed{{{answer}}}"), format!("<answer>{answer}</answer>")];
    for completion in forms.into_iter().chain([WRONG.to_owned()]) {
        let item = VerifyItem {
            token_ids: tokenizer.encode(&completion)?,
            finish_reason: FinishReason::Stop.into(),
            deadline_ms: Some(limit.as_millis() as u64),
            ..row.task.verify_item("trial", verify_item::Answer::Completion(completion.clone()))
        };
        tried.push(Tried { completion, refused: verdict(verifier, item, limit).await });
    }
    let of_row = if gold.is_some() { "the row's answer" } else { "made up, since the row has no answer" };
    Ok(finding(&tried, of_row).map(|finding| {
        let said = |words: String| format!("{field}: row `{}`: {words}", row.id);
        match finding {
            TrialFinding::Problem(words) => TrialFinding::Problem(said(words)),
            TrialFinding::Note(words) => TrialFinding::Note(said(words)),
        }
    }))
}

/// Why an answer has no reward.
async fn verdict(verifier: &VerifierClient, item: VerifyItem, limit: Duration) -> Option<String> {
    let asked = verifier.await_verdict();
    let Ok(Dispatched { result, .. }) = timeout(limit, asked.request(item, 1)).await else {
        return Some(format!("no answer within {}", evenkeel_config::human(limit)));
    };
    match result {
        Err(lost) => Some(lost.to_string()),
        Ok(verdict) => reason(&verdict),
    }
}

fn reason(verdict: &Verdict) -> Option<String> {
    match verdict.validate() {
        Err(error) => Some(format!("the verdict violates the protocol: {error}")),
        Ok(()) if verdict.is_valid() || verdict.reason_code == ABSTAINS => None,
        Ok(()) if verdict.reason_code == OUT_OF_RANGE => Some(format!("{OUT_OF_RANGE}: {}", verdict.detail)),
        Ok(()) => Some(verdict.reason_with_detail()),
    }
}

fn finding(tried: &[Tried], answer: &str) -> Option<TrialFinding> {
    let refused: Vec<_> = tried.iter().filter_map(|tried| Some((tried, tried.refused.as_ref()?))).collect();
    let (first, why) = refused.first()?;
    let of = |tried: &[&Tried]| tried.iter().map(|tried| format!("`{}`", tried.completion)).collect::<Vec<_>>();
    let all = of(&tried.iter().collect::<Vec<_>>());
    if let Some((tried, why)) = refused.iter().find(|(_, why)| why.contains(OUT_OF_RANGE)) {
        return Some(TrialFinding::Problem(format!("no reward for the completion `{}`: {why}", tried.completion)));
    }
    if refused.len() == tried.len() {
        return Some(TrialFinding::Problem(format!("no reward for any of {} ({answer}): {why}", all.join(", "))));
    }
    let rewarded = of(&tried.iter().filter(|tried| tried.refused.is_none()).collect::<Vec<_>>());
    Some(TrialFinding::Note(format!(
        "no reward for the completion `{}` ({answer}), though for {}: {why}. Samples without a reward are left out, and \
         many of them end the run: return a reward for answers in any form",
        first.completion,
        rewarded.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(refused: [Option<&str>; 2]) -> Vec<Tried> {
        let of = |(completion, refused): (&str, Option<&str>)| Tried {
            completion: completion.to_owned(),
            refused: refused.map(str::to_owned),
        };
        ["4", "\\boxed{4}"].into_iter().zip(refused).map(of).collect()
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
        let outside = tried([None, Some("reward_out_of_range: right gave -1, allowed: 0 to 1")]);
        let words = "no reward for the completion `\\boxed{4}`: reward_out_of_range: right gave -1, allowed: 0 to 1";
        assert_eq!(finding(&outside, "the row's answer"), Some(TrialFinding::Problem(words.to_owned())));
        assert!(note.contains("completion `4`") && note.contains("though for `\\boxed{4}`: no match"), "{note}");
    }
}
