//! The reward service, or a custom verifier: verdicts of many workers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_proto::v1::{RewardGetStatusRequest, RewardGetStatusResponse, Verdict, VerifyItem};
use evenkeel_rpc::client::ClientChannel;
use evenkeel_rpc::dispatch::{Dispatched, Dispatcher};
use evenkeel_rpc::items::VerifyItems;
use futures_util::future::join_all;

use super::connect::Connections;
use super::{Outage, Retrier, Stop};
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};

/// How often a first worker is looked for.
const CONNECT_POLL: Duration = Duration::from_millis(50);
/// How long one of several workers may take to say what it judges. A run begins without those that take longer.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// All reward workers, or all of a custom verifier.
pub(crate) struct VerifierClient {
    /// The reward service or a custom verifier.
    service: Dependency,
    /// The name of a custom verifier.
    name: Option<String>,
    urls: Vec<String>,
    dispatcher: Dispatcher<VerifyItems>,
    /// The workers that have a URL of their own.
    workers: Vec<(String, RewardClient<ClientChannel>)>,
    /// Verifications that have begun and not ended.
    awaited: AtomicUsize,
    /// Verifications that ended, in a verdict or not.
    verified: AtomicU64,
    /// Requests that ended, in an answer or not; several for a verification that is repeated.
    answered: AtomicU64,
    retrier: Retrier,
}

impl VerifierClient {
    pub(super) fn connect(urls: &[String], connections: &Connections, retrier: Retrier) -> Result<Self, RunError> {
        Self::of(None, "endpoints.reward", urls, connections, retrier)
    }

    /// The custom verifier of that name.
    pub(super) fn connect_custom(
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
        let limit = connections.max_message();
        let settings = connections.settings();
        let worker = |url: &String| -> Result<_, RunError> {
            let client = RewardClient::new(connections.channel(field, url)?);
            Ok((url.clone(), client.max_decoding_message_size(limit).max_encoding_message_size(limit)))
        };
        let workers = urls.iter().filter(|url| !url.starts_with("dns")).map(worker).collect::<Result<_, _>>()?;
        Ok(Self {
            service: if name.is_some() { Dependency::Verifier } else { Dependency::Reward },
            name,
            awaited: AtomicUsize::new(0),
            verified: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            dispatcher: connections.dispatcher(field, urls, settings.max_verifications, settings.verify_deadline)?,
            urls: urls.to_vec(),
            workers,
            retrier,
        })
    }

    /// The reward service or a custom verifier.
    pub(crate) fn service(&self) -> Dependency {
        self.service
    }

    /// The name of a custom verifier and the addresses, for messages.
    pub(crate) fn endpoints(&self) -> String {
        let urls = self.urls.join(", ");
        self.name.as_ref().map_or_else(|| urls.clone(), |name| format!("`{name}` ({urls})"))
    }

    /// Begins a verification. It counts as awaited until the value is dropped, also while it pauses between two
    /// requests.
    pub(crate) fn await_verdict(&self) -> AwaitedVerdict<'_> {
        self.awaited.fetch_add(1, Ordering::Relaxed);
        AwaitedVerdict(self)
    }

    /// Answers whose verdict is awaited.
    pub(crate) fn awaited(&self) -> usize {
        self.awaited.load(Ordering::Relaxed)
    }

    /// Verifications that ended so far.
    pub(crate) fn verified(&self) -> u64 {
        self.verified.load(Ordering::Relaxed)
    }

    /// Requests that ended so far.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
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

    /// The statuses of the workers that answer, by address. Where none does the first is waited for. Workers that are
    /// only known by a DNS name are not asked.
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

/// A verification, until it is dropped.
pub(crate) struct AwaitedVerdict<'a>(&'a VerifierClient);

impl AwaitedVerdict<'_> {
    /// The service that it is requested of.
    pub(crate) fn service(&self) -> Dependency {
        self.0.service
    }

    /// Requests the verdict of workers, which are given the item `max_attempts` times at most. Without a connected
    /// worker the item waits for one; how long is the health monitor's to decide.
    pub(crate) async fn request(&self, item: VerifyItem, max_attempts: u32) -> Dispatched<Verdict> {
        let answer = self.0.dispatcher.call(item, max_attempts).await;
        self.0.answered.fetch_add(1, Ordering::Relaxed);
        answer
    }
}

impl Drop for AwaitedVerdict<'_> {
    fn drop(&mut self) {
        self.0.awaited.fetch_sub(1, Ordering::Relaxed);
        self.0.verified.fetch_add(1, Ordering::Relaxed);
    }
}
