//! The reward service, or a custom verifier: verdicts of many workers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_proto::v1::{RewardGetStatusRequest, RewardGetStatusResponse};
use evenkeel_rpc::client::ClientChannel;
use evenkeel_rpc::dispatch::Dispatcher;
use evenkeel_rpc::items::VerifyItems;
use futures_util::future::join_all;

use super::connect::Connections;
use super::{Outage, Retrier, Stop};
use crate::error::{Halt, RunError};

/// How often a first worker is looked for.
const CONNECT_POLL: Duration = Duration::from_millis(50);
/// How long one of several workers may take to say what it judges. A run begins without those that take longer.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// All reward workers, or all of a custom verifier.
pub(crate) struct Reward {
    /// What it is, for messages.
    service: &'static str,
    /// The name of a custom verifier.
    name: Option<String>,
    urls: Vec<String>,
    dispatcher: Dispatcher<VerifyItems>,
    /// The workers that have a URL of their own.
    workers: Vec<(String, RewardClient<ClientChannel>)>,
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
        let worker = |url: &String| -> Result<_, RunError> {
            let client = RewardClient::new(connections.channel(field, url)?);
            Ok((url.clone(), client.max_decoding_message_size(limit).max_encoding_message_size(limit)))
        };
        let workers = urls.iter().filter(|url| url.starts_with("http")).map(worker).collect::<Result<_, _>>()?;
        let (max_outstanding, attempts) = (settings.max_verifications, settings.verify_attempts);
        Ok(Self {
            service: if name.is_some() { "verifier" } else { "reward" },
            name,
            ended: AtomicU64::new(0),
            dispatcher: connections.dispatcher(field, urls, max_outstanding, attempts, settings.verify_deadline)?,
            urls: urls.to_vec(),
            workers,
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

    /// The statuses of the workers that answer, by address. Where none does the first is waited for. Workers that are only known by a DNS
    /// name are not asked.
    pub(crate) async fn statuses(&self) -> Result<Vec<(&str, RewardGetStatusResponse)>, Halt> {
        let status = |client: &RewardClient<ClientChannel>| {
            let mut client = client.clone();
            async move { Ok(client.get_status(self.retrier.request(RewardGetStatusRequest {})).await?.into_inner()) }
        };
        let asked = self.workers.iter().map(async |(endpoint, client)| {
            let answer: Result<_, tonic::Status> = tokio::time::timeout(STATUS_TIMEOUT, status(client)).await.ok()?;
            Some((endpoint.as_str(), answer.ok()?))
        });
        let answered: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
        match self.workers.first() {
            Some((endpoint, client)) if answered.is_empty() => {
                let name = self.name.as_ref();
                let what = name.map_or_else(|| "GetStatus".to_owned(), |name| format!("GetStatus of `{name}`"));
                let found = self.retrier.call(self.service, endpoint, &what, || status(client)).await?;
                Ok(vec![(endpoint, found)])
            }
            _ => Ok(answered),
        }
    }
}
