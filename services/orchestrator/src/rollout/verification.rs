//! The verdict of one sample, requested again where that can help.

use std::time::Duration;

use evenkeel_proto::Label;
use evenkeel_proto::v1::{InvalidReason, Verdict, VerifyItem};
use evenkeel_rpc::dispatch::{DispatchError, Dispatcher};
use evenkeel_rpc::items::VerifyItems;
use evenkeel_rpc::retry::RetryPolicy;
use evenkeel_tasks::Task;

use super::sample::Judgement;
use super::shaping::Judged;

/// How long an outage is waited for here; the health monitor ends it long before.
const OUTAGE: Duration = Duration::from_secs(3600);

/// The result of a verification. `retries` counts the requests after the first.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verified {
    /// There is a verdict.
    Verdict { judged: Judged, judgement: Judgement, retries: u32 },
    /// There is none, for a reason that is not the sample's own.
    Invalid { reason: String, retries: u32, late: bool },
}

/// A request to verify a sample.
#[derive(Debug)]
pub(super) struct VerifyRequest {
    pub(super) item: VerifyItem,
    /// Its task with the tests, where `item` names them: for a worker that does not know them.
    pub(super) with_tests: Option<Task>,
}

/// Verifies a sample. The dispatcher replaces a worker that is lost or fails; this retries verdicts that came too late or that another
/// worker may give. While no worker is connected no attempt is counted: the health monitor ends that wait.
pub(super) async fn verify(
    dispatcher: &Dispatcher<VerifyItems>,
    request: VerifyRequest,
    policy: RetryPolicy,
) -> Verified {
    let VerifyRequest { mut item, mut with_tests } = request;
    let (mut attempts, mut retries, mut ever_late) = (policy.start(), 0, false);
    loop {
        let response = dispatcher.call(item.clone()).await;
        if response.as_ref().is_ok_and(|verdict| verdict.invalid_reason() == InvalidReason::UnknownTests)
            && let Some(task) = with_tests.take()
        {
            item.task = Some(task.message());
            continue;
        }
        let (reason, late) = match response {
            Ok(verdict) => match interpret(&verdict) {
                Interpretation::Valid(judged) => {
                    return Verified::Verdict { judged, judgement: judgement(verdict), retries };
                }
                Interpretation::Final(reason) => return Verified::Invalid { reason, retries, late: ever_late },
                Interpretation::Retry(reason) => (reason, verdict.invalid_reason() == InvalidReason::Deadline),
            },
            Err(lost @ DispatchError::Deadline { .. }) => (lost.to_string(), true),
            Err(wrong @ DispatchError::Misanswered { .. }) => (wrong.to_string(), false),
            Err(DispatchError::WorkerLost { .. }) if !dispatcher.is_connected() => {
                dispatcher.ready(1, OUTAGE).await;
                continue;
            }
            Err(lost) => return Verified::Invalid { reason: lost.to_string(), retries, late: ever_late },
        };
        ever_late |= late;
        let Some(retry) = attempts.next_retry() else {
            return Verified::Invalid { reason, retries, late: ever_late };
        };
        crate::instruments::retry("reward");
        tokio::time::sleep(retry.pause).await;
        retries += 1;
    }
}

fn judgement(verdict: Verdict) -> Judgement {
    let Verdict { reason_code: reason, detail, extracted, canonical, .. } = verdict;
    Judgement { reason, detail, extracted, canonical }
}

/// What a verdict means for its sample.
enum Interpretation {
    Valid(Judged),
    /// Another request may bring a verdict.
    Retry(String),
    /// None will.
    Final(String),
}

fn interpret(verdict: &Verdict) -> Interpretation {
    if let Err(error) = verdict.validate() {
        // A defect of the worker; another one may be sound.
        return Interpretation::Retry(format!("the verdict violates the protocol: {error}"));
    }
    if let (true, Some(raw)) = (verdict.is_valid(), verdict.reward) {
        let components = verdict.components.clone();
        return Interpretation::Valid(Judged { outcome: verdict.outcome(), raw, components });
    }
    let reason = verdict.invalid_reason();
    let text = match verdict.detail.as_str() {
        "" => reason.label().to_owned(),
        detail => format!("{}: {detail}", reason.label()),
    };
    // The worker may have been busy, or another one may have the tests. Failures of a worker itself were retried by the dispatcher.
    if matches!(reason, InvalidReason::Deadline | InvalidReason::UnknownTests) {
        Interpretation::Retry(text)
    } else {
        Interpretation::Final(text)
    }
}
