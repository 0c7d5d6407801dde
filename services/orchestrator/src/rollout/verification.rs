//! The verdict of one sample, requested again where that can help.

use std::collections::BTreeMap;

use evenkeel_data::Task;
use evenkeel_proto::v1::{InvalidReason, Outcome, Verdict, VerifyItem, verify_item};
use evenkeel_rpc::dispatch::{DispatchError, Dispatched};
use evenkeel_rpc::retry::RetryPolicy;

use super::sample::VerdictDetail;
use super::shaping::VerdictReward;
use crate::clients::AwaitedVerdict;

/// The result of a verification. `retries` counts the attempts after the first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum VerificationOutcome {
    /// The sample has a verdict.
    Verdict { reward: VerdictReward, detail: VerdictDetail, retries: u32 },
    /// The sample has no verdict, for a reason that is not its own. `code` is that of the verdict, where one says so.
    Invalid { reason: String, code: String, retries: u32, late: bool },
}

impl VerificationOutcome {
    /// The reward of an answer that nobody judges, which is correct in no accuracy and wrong in none.
    pub(crate) fn unjudged() -> Self {
        let reward = VerdictReward { outcome: Outcome::Scored, raw: 0.0, components: BTreeMap::new() };
        Self::Verdict { reward, detail: VerdictDetail::default(), retries: 0 }
    }

    /// What an environment makes of its episode, in a verdict that stands.
    pub(super) fn of_environment(verdict: Verdict) -> Self {
        match disposition(&verdict) {
            Disposition::Valid(reward) => Self::Verdict { reward, detail: detail(verdict), retries: 0 },
            Disposition::Final(reason) | Disposition::Retry(reason) => {
                Self::Invalid { reason, code: verdict.reason_code, retries: 0, late: false }
            }
        }
    }
}

/// A request to verify a sample.
#[derive(Debug)]
pub(crate) struct VerifyRequest {
    pub(crate) item: VerifyItem,
    /// The task with the tests, where `item` names them: for a worker that does not know them.
    pub(crate) with_tests: Option<Task>,
}

impl VerifyRequest {
    /// The response as the verifier gets it.
    pub(super) fn completion(&self) -> &str {
        match &self.item.answer {
            Some(verify_item::Answer::Completion(text)) => text,
            _ => "",
        }
    }
}

/// Verifies a sample in at most `attempts` attempts, whoever repeats one: the dispatcher replaces a worker that is lost
/// or fails; this repeats verdicts that came too late or that another worker may give. The first worker that lacks the
/// tests is sent them free of charge.
pub(crate) async fn verify(
    verdict: &AwaitedVerdict<'_>,
    request: VerifyRequest,
    attempts: u32,
    pauses: RetryPolicy,
) -> VerificationOutcome {
    let VerifyRequest { mut item, mut with_tests } = request;
    let mut left = attempts;
    let mut backoff = pauses.backoff();
    let mut ever_late = false;
    loop {
        let Dispatched { result, attempts: used } = verdict.request(item.clone(), left).await;
        let unknown_tests = |verdict: &Verdict| verdict.invalid_reason() == InvalidReason::UnknownTests;
        if result.as_ref().is_ok_and(unknown_tests)
            && let Some(task) = with_tests.take()
        {
            item.task = Some(task.message());
            left -= used.saturating_sub(1);
            continue;
        }
        left = left.saturating_sub(used);
        let retries = (attempts - left).saturating_sub(1);
        let (reason, late) = match result {
            Ok(verdict) => match disposition(&verdict) {
                Disposition::Valid(reward) => {
                    return VerificationOutcome::Verdict { reward, detail: detail(verdict), retries };
                }
                Disposition::Final(reason) => {
                    let code = verdict.reason_code;
                    return VerificationOutcome::Invalid { reason, code, retries, late: ever_late };
                }
                Disposition::Retry(reason) => (reason, verdict.invalid_reason() == InvalidReason::Deadline),
            },
            Err(lost @ DispatchError::Deadline { .. }) => (lost.to_string(), true),
            Err(mismatched @ DispatchError::UnexpectedId { .. }) => (mismatched.to_string(), false),
            Err(lost) => {
                let reason = lost.to_string();
                return VerificationOutcome::Invalid { reason, code: String::new(), retries, late: ever_late };
            }
        };
        ever_late |= late;
        if left == 0 {
            return VerificationOutcome::Invalid { reason, code: String::new(), retries, late: ever_late };
        }
        crate::instruments::retry(verdict.service());
        tokio::time::sleep(backoff.next_pause()).await;
    }
}

fn detail(verdict: Verdict) -> VerdictDetail {
    let Verdict { reason_code: reason, detail, extracted, canonical, .. } = verdict;
    VerdictDetail { reason, detail, extracted, canonical }
}

/// What a verdict means for its sample.
enum Disposition {
    Valid(VerdictReward),
    /// Another request may bring a verdict.
    Retry(String),
    Final(String),
}

fn disposition(verdict: &Verdict) -> Disposition {
    if let Err(error) = verdict.validate() {
        // A defect of the worker; another one may be sound.
        return Disposition::Retry(format!("the verdict violates the protocol: {error}"));
    }
    if let (true, Some(raw)) = (verdict.is_valid(), verdict.reward) {
        let components = verdict.components.clone();
        return Disposition::Valid(VerdictReward { outcome: verdict.outcome(), raw, components });
    }
    let text = verdict.reason_with_detail();
    // The worker may have been busy, or another one may have the tests. Failures of a worker itself were retried by the
    // dispatcher.
    if matches!(verdict.invalid_reason(), InvalidReason::Deadline | InvalidReason::UnknownTests) {
        Disposition::Retry(text)
    } else {
        Disposition::Final(text)
    }
}

#[cfg(test)]
#[path = "verification_tests.rs"]
mod tests;
