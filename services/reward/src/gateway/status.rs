//! The status of all workers as one.

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_proto::v1::{RewardGetStatusRequest, RewardGetStatusResponse};
use evenkeel_rpc::client::{Connector, ServerAddress};
use evenkeel_rpc::error::{Reason, ServiceError};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a worker may take to report its status; workers that do not answer are omitted.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// The workers of a gateway.
pub(super) struct Workers {
    addresses: watch::Receiver<BTreeSet<ServerAddress>>,
    connector: Connector,
}

impl Workers {
    pub(super) fn new(addresses: watch::Receiver<BTreeSet<ServerAddress>>, connector: Connector) -> Self {
        Self { addresses, connector }
    }

    /// What all workers that answer can do, and the verdicts of all of them.
    ///
    /// # Errors
    /// No worker answers.
    pub(super) async fn status(&self) -> Result<RewardGetStatusResponse, ServiceError> {
        let addresses = self.addresses.borrow().clone();
        let mut asked = JoinSet::new();
        for address in addresses {
            let connector = self.connector.clone();
            asked.spawn(tokio::time::timeout(STATUS_TIMEOUT, ask(connector, address)));
        }
        let mut together = None;
        let mut answered = 0_u64;
        while let Some(answer) = asked.join_next().await {
            if let Ok(Ok(Some(status))) = answer {
                answered += 1;
                together = Some(match together {
                    None => status,
                    Some(others) => merged(others, status),
                });
            }
        }
        tracing::debug!(answered, "asked the workers for their status");
        together.ok_or_else(|| ServiceError::Unavailable {
            reason: Reason::NoWorker,
            message: "no reward worker answers".to_owned(),
        })
    }
}

async fn ask(connector: Connector, address: ServerAddress) -> Option<RewardGetStatusResponse> {
    let channel = connector.connect(&address).await.ok()?;
    Some(RewardClient::new(channel).get_status(RewardGetStatusRequest {}).await.ok()?.into_inner())
}

/// Two workers as one. An item may go to either, so only what both can do counts; their verdicts add up.
fn merged(one: RewardGetStatusResponse, other: RewardGetStatusResponse) -> RewardGetStatusResponse {
    let mut verdicts = one.verdicts;
    for (outcome, count) in other.verdicts {
        *verdicts.entry(outcome).or_default() += count;
    }
    let in_both =
        |these: Vec<String>, those: &[String]| these.into_iter().filter(|name| those.contains(name)).collect();
    RewardGetStatusResponse {
        server: None,
        queue: None,
        math: one.math && other.math,
        math_profiles: in_both(one.math_profiles, &other.math_profiles),
        code: one.code && other.code,
        verdicts,
        max_completion_bytes: one.max_completion_bytes.min(other.max_completion_bytes),
        custom: one.custom && other.custom,
        components: in_both(one.components, &other.components),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_can_do_what_every_worker_can_and_counts_the_verdicts_of_all() {
        let worker = |code, profiles: &[&str], correct, bytes| RewardGetStatusResponse {
            math: true,
            code,
            math_profiles: profiles.iter().map(|&name| name.to_owned()).collect(),
            verdicts: [("correct".to_owned(), correct)].into(),
            max_completion_bytes: bytes,
            ..RewardGetStatusResponse::default()
        };
        let together = merged(worker(true, &["default", "exact"], 3, 10), worker(false, &["exact"], 4, 20));
        assert!(together.math && !together.code);
        assert_eq!(together.math_profiles, ["exact"]);
        assert_eq!(together.verdicts["correct"], 7);
        assert_eq!(together.max_completion_bytes, 10);
    }
}
