//! The reward service: verdicts of many workers.

use std::time::Duration;

use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_proto::v1::{RewardGetStatusRequest, RewardGetStatusResponse};
use evenkeel_rpc::client::ClientChannel;
use evenkeel_rpc::dispatch::Dispatcher;
use evenkeel_rpc::items::VerifyItems;

use super::connect::Connections;
use super::{Outage, Retrier, Stop};
use crate::error::{Halt, RunError};

/// How often a first worker is looked for.
const CONNECT_POLL: Duration = Duration::from_millis(50);

/// All reward workers.
pub(crate) struct Reward {
    urls: Vec<String>,
    dispatcher: Dispatcher<VerifyItems>,
    /// The first worker with a URL of its own.
    first: Option<(String, RewardClient<ClientChannel>)>,
    retrier: Retrier,
}

impl Reward {
    pub(super) fn connect(urls: &[String], connections: &Connections, retrier: Retrier) -> Result<Self, RunError> {
        let (field, limit, settings) = ("endpoints.reward", connections.max_message(), connections.settings());
        let first = match urls.iter().find(|url| url.starts_with("http")) {
            None => None,
            Some(url) => {
                let client = RewardClient::new(connections.channel(field, url)?);
                Some((url.clone(), client.max_decoding_message_size(limit).max_encoding_message_size(limit)))
            }
        };
        let (max_outstanding, attempts) = (settings.max_verifications, settings.verify_attempts);
        Ok(Self {
            dispatcher: connections.dispatcher(field, urls, max_outstanding, attempts, settings.verify_deadline)?,
            urls: urls.to_vec(),
            first,
            retrier,
        })
    }

    /// The addresses, for messages.
    pub(crate) fn endpoints(&self) -> String {
        self.urls.join(", ")
    }

    pub(crate) fn dispatcher(&self) -> &Dispatcher<VerifyItems> {
        &self.dispatcher
    }

    /// Answers that no worker has scored yet.
    pub(crate) fn pending(&self) -> usize {
        self.dispatcher.pending()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.dispatcher.is_connected()
    }

    pub(crate) fn outage(&self) -> Outage {
        Outage::new("reward", self.endpoints(), self.retrier.clone())
    }

    /// Waits for a first worker.
    pub(crate) async fn connected(&self, stop: &Stop) -> Result<(), Halt> {
        let mut outage = self.outage();
        loop {
            let connected = tokio::select! {
                biased;
                connected = self.dispatcher.ready(1, CONNECT_POLL) => connected,
                halt = stop.any() => return Err(halt),
            };
            outage.observe(connected, stop)?;
            if connected {
                return Ok(());
            }
        }
    }

    /// The status of the first worker; `None` where workers are only known by a DNS name.
    pub(crate) async fn status(&self) -> Result<Option<RewardGetStatusResponse>, Halt> {
        let Some((endpoint, client)) = &self.first else { return Ok(None) };
        let call = || {
            let mut client = client.clone();
            async move { Ok(client.get_status(self.retrier.request(RewardGetStatusRequest {})).await?.into_inner()) }
        };
        self.retrier.call("reward", endpoint, "GetStatus", call).await.map(Some)
    }
}
