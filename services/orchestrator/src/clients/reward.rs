//! The reward service, or a custom verifier: verdicts of many workers.

use std::sync::atomic::{AtomicU64, Ordering};
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

/// All reward workers, or all of a custom verifier.
pub(crate) struct Reward {
    /// What it is, for messages.
    service: &'static str,
    /// The name of a custom verifier.
    name: Option<String>,
    urls: Vec<String>,
    dispatcher: Dispatcher<VerifyItems>,
    /// The first worker with a URL of its own.
    first: Option<(String, RewardClient<ClientChannel>)>,
    /// Verifications that ended, in a verdict or not.
    ended: AtomicU64,
    retrier: Retrier,
}

impl Reward {
    pub(super) fn connect(urls: &[String], connections: &Connections, retrier: Retrier) -> Result<Self, RunError> {
        Self::of(None, "endpoints.reward", urls, connections, retrier)
    }

    /// The custom verifier of that name.
    pub(super) fn of_verifier(
        name: &str,
        urls: &[String],
        connections: &Connections,
        retrier: Retrier,
    ) -> Result<Self, RunError> {
        Self::of(Some(name.to_owned()), &format!("data.verifiers.{name}.endpoints"), urls, connections, retrier)
    }

    fn of(
        name: Option<String>,
        field: &str,
        urls: &[String],
        connections: &Connections,
        retrier: Retrier,
    ) -> Result<Self, RunError> {
        let (limit, settings) = (connections.max_message(), connections.settings());
        let first = match urls.iter().find(|url| url.starts_with("http")) {
            None => None,
            Some(url) => {
                let client = RewardClient::new(connections.channel(field, url)?);
                Some((url.clone(), client.max_decoding_message_size(limit).max_encoding_message_size(limit)))
            }
        };
        let (max_outstanding, attempts) = (settings.max_verifications, settings.verify_attempts);
        Ok(Self {
            service: if name.is_some() { "verifier" } else { "reward" },
            name,
            ended: AtomicU64::new(0),
            dispatcher: connections.dispatcher(field, urls, max_outstanding, attempts, settings.verify_deadline)?,
            urls: urls.to_vec(),
            first,
            retrier,
        })
    }

    /// What it is, for messages.
    pub(crate) fn service(&self) -> &'static str {
        self.service
    }

    /// The name of a custom verifier and the addresses, for messages.
    pub(crate) fn endpoints(&self) -> String {
        let urls = self.urls.join(", ");
        self.name.as_ref().map_or_else(|| urls.clone(), |name| format!("`{name}` ({urls})"))
    }

    /// Counts a verification that ended.
    pub(crate) fn verification_ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Verifications that ended so far.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
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
        Outage::new(self.service, self.endpoints(), self.retrier.clone())
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
        let what = self.name.as_ref().map_or_else(|| "GetStatus".to_owned(), |name| format!("GetStatus of `{name}`"));
        let call = || {
            let mut client = client.clone();
            async move { Ok(client.get_status(self.retrier.request(RewardGetStatusRequest {})).await?.into_inner()) }
        };
        self.retrier.call(self.service, endpoint, &what, call).await.map(Some)
    }
}
