//! The verdict of one sample, verified again where that can help.

use std::time::Duration;

use evenkeel_proto::Label;
use evenkeel_proto::v1::{InvalidReason, Outcome, Verdict, VerifyItem};
use evenkeel_rpc::dispatch::{DispatchError, Dispatcher};
use evenkeel_rpc::items::VerifyItems;
use evenkeel_rpc::retry::RetryPolicy;

/// How long an outage is waited for here; the watch of the scheduler ends it long before.
const OUTAGE: Duration = Duration::from_secs(3600);

/// The result of a verification.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verified {
    /// The verdict stands.
    Judged { outcome: Outcome, raw_reward: f64, again: u32 },
    /// There is none, for a reason that is not the sample's own.
    Invalid { reason: String, again: u32, late: bool },
}

/// Verifies an item. A worker that is lost or fails is the dispatcher's to replace; here a verdict that came too late or that another
/// worker may give is asked for again. While no worker is connected no attempt is counted: the caller's watch ends that wait.
pub(super) async fn verify(dispatcher: Dispatcher<VerifyItems>, item: VerifyItem, policy: RetryPolicy) -> Verified {
    let (mut retries, mut again, mut ever_late) = (policy.start(), 0, false);
    loop {
        let (reason, late) = match dispatcher.call(item.clone()).await {
            Ok(verdict) => match judge(&verdict) {
                Judged::Stands(outcome, raw_reward) => return Verified::Judged { outcome, raw_reward, again },
                Judged::Never(reason) => return Verified::Invalid { reason, again, late: ever_late },
                Judged::Again(reason) => (reason, verdict.invalid_reason() == InvalidReason::Deadline),
            },
            Err(lost @ DispatchError::Deadline { .. }) => (lost.to_string(), true),
            Err(DispatchError::WorkerLost { .. }) if !dispatcher.ready(1, Duration::ZERO).await => {
                dispatcher.ready(1, OUTAGE).await;
                continue;
            }
            Err(lost) => return Verified::Invalid { reason: lost.to_string(), again, late: ever_late },
        };
        ever_late |= late;
        let Some(retry) = retries.next_retry() else {
            return Verified::Invalid { reason, again, late: ever_late };
        };
        tokio::time::sleep(retry.pause).await;
        again += 1;
    }
}

enum Judged {
    Stands(Outcome, f64),
    Again(String),
    Never(String),
}

fn judge(verdict: &Verdict) -> Judged {
    if let Err(broken) = verdict.check() {
        // A defect of the worker; another one may be sound.
        return Judged::Again(format!("the verdict breaks the protocol: {broken}"));
    }
    if let (true, Some(reward)) = (verdict.is_valid(), verdict.reward) {
        return Judged::Stands(verdict.outcome(), reward);
    }
    let reason = verdict.invalid_reason();
    let text = match verdict.detail.as_str() {
        "" => reason.label().to_owned(),
        detail => format!("{}: {detail}", reason.label()),
    };
    // A deadline may have been that of a busy moment. What the worker itself failed at the dispatcher has tried elsewhere.
    if matches!(reason, InvalidReason::Deadline | InvalidReason::UnknownTests) {
        Judged::Again(text)
    } else {
        Judged::Never(text)
    }
}
