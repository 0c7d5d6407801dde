//! One sample's way to a verdict: again where that can help, a bounded number of times.

use std::time::Duration;

use evenkeel_proto::Label;
use evenkeel_proto::v1::{InvalidReason, Outcome, Verdict, VerifyItem};
use evenkeel_rpc::dispatch::{DispatchError, Dispatcher};
use evenkeel_rpc::items::VerifyItems;

/// Longest pause between two verifications of a sample.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What verification came to.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verified {
    /// The verdict stands.
    Judged { outcome: Outcome, raw_reward: f64, again: u32 },
    /// There is none, for a reason that is not the sample's own.
    Invalid { reason: String, again: u32, late: bool },
}

/// Verifies an item up to `attempts` times. While no worker is connected nothing is counted: who gives up then is the caller's watch.
pub(super) async fn verify(
    dispatcher: Dispatcher<VerifyItems>,
    item: VerifyItem,
    attempts: u32,
    pause: Duration,
) -> Verified {
    let (mut again, mut ever_late) = (0, false);
    loop {
        let (reason, late) = match dispatcher.call(item.clone()).await {
            Ok(verdict) => match judge(&verdict) {
                Judged::Stands(outcome, raw_reward) => return Verified::Judged { outcome, raw_reward, again },
                Judged::Never(reason) => return Verified::Invalid { reason, again, late: false },
                Judged::Again(reason) => (reason, verdict.invalid_reason() == InvalidReason::Deadline),
            },
            Err(DispatchError::Closed) => {
                return Verified::Invalid { reason: "the dispatcher has ended".to_owned(), again, late: false };
            }
            Err(lost) => {
                if !dispatcher.ready(1, Duration::ZERO).await {
                    dispatcher.ready(1, Duration::from_secs(3600)).await;
                    continue;
                }
                (lost.to_string(), matches!(lost, DispatchError::Deadline { .. }))
            }
        };
        ever_late |= late;
        if again + 1 >= attempts {
            return Verified::Invalid { reason, again, late: ever_late };
        }
        tokio::time::sleep((pause * (1 << again.min(8))).min(LONGEST_PAUSE)).await;
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
    // A deadline may have been that of a busy moment.
    let may_help = reason.is_retryable() || matches!(reason, InvalidReason::Deadline | InvalidReason::UnknownTests);
    if may_help { Judged::Again(text) } else { Judged::Never(text) }
}
