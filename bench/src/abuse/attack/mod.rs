//! Every kind of abuse at once, each at its own pace.
//!
//! A kind has rounds at a fixed period, and a round has a limit. Periods are such that the clients here and what the
//! servers do for them leave a good part of two cores free: what is looked for is what a few bad clients can do to
//! others, not what a full machine does. Clients of all kinds come from four addresses of the loopback network; honest
//! ones come from a fifth.

mod calls;
mod connections;
mod frames;
mod http1;
mod items;
mod rows;
mod training;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_proto::shown::one_line;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tonic::transport::Channel;

use super::wire::{self, Failed};

/// Where the servers are, and what can be used against them.
#[derive(Debug, Deserialize)]
pub(crate) struct Targets {
    reward: SocketAddr,
    generation: SocketAddr,
    learner: SocketAddr,
    orchestrator: SocketAddr,
    engine: SocketAddr,
    /// Ports with `/metrics` alone.
    metrics: Vec<SocketAddr>,
    /// Files of base64, each the private tests of a row.
    rows: Vec<PathBuf>,
    /// A folder of weights outside of where the engine may read them.
    foreign_weights: PathBuf,
}

type Abused = Pin<Box<dyn Future<Output = Result<(), Failed>> + Send>>;

/// One kind of abuse.
struct AttackKind {
    name: &'static str,
    period: Duration,
    limit: Duration,
    round: fn(Round) -> Abused,
}

/// Wraps an asynchronous function as a kind's round.
macro_rules! kind {
    ($name:literal, every $period:literal s, at most $limit:literal s, $round:path) => {
        AttackKind {
            name: $name,
            period: Duration::from_secs($period),
            limit: Duration::from_secs($limit),
            round: |round| Box::pin($round(round)),
        }
    };
}

const KINDS: &[AttackKind] = &[
    kind!("rows that inflate", every 15 s, at most 60 s, rows::inflating),
    kind!("rows that are broken", every 5 s, at most 30 s, rows::broken),
    kind!("empty tests by the million", every 20 s, at most 30 s, rows::empty_tests),
    kind!("programs", every 5 s, at most 120 s, items::programs),
    kind!("mathematics", every 2 s, at most 60 s, items::mathematics),
    kind!("texts", every 4 s, at most 30 s, items::texts),
    kind!("streams that are not read", every 8 s, at most 25 s, items::unread),
    kind!("streams that are dropped", every 3 s, at most 20 s, items::dropped),
    kind!("items of 30 MB", every 20 s, at most 30 s, items::large),
    kind!("messages half sent", every 20 s, at most 12 s, calls::half_sent),
    kind!("methods that are not there", every 4 s, at most 20 s, calls::unknown),
    kind!("bytes that are not messages", every 3 s, at most 20 s, calls::garbage),
    kind!("connections that do nothing", every 30 s, at most 20 s, connections::idle),
    kind!("connections that begin", every 15 s, at most 30 s, connections::half_begun),
    kind!("slow HTTP/1 headers", every 15 s, at most 30 s, http1::slow),
    kind!("HTTP/1 requests", every 5 s, at most 30 s, http1::requests),
    kind!("noise", every 3 s, at most 10 s, frames::noise),
    kind!("RST_STREAM floods", every 6 s, at most 10 s, frames::resets),
    kind!("PING floods", every 6 s, at most 10 s, frames::pings),
    kind!("SETTINGS floods", every 6 s, at most 10 s, frames::settings),
    kind!("CONTINUATION floods", every 6 s, at most 10 s, frames::continuations),
    kind!("empty DATA floods", every 6 s, at most 10 s, frames::empty_data),
    kind!("frames out of place", every 4 s, at most 10 s, frames::out_of_place),
    kind!("steps that do not come", every 20 s, at most 40 s, training::idle_step),
    kind!("checkpoints of others", every 5 s, at most 30 s, training::checkpoints),
    kind!("scores", every 5 s, at most 30 s, training::scores),
    kind!("weights of others", every 5 s, at most 30 s, training::weights),
    kind!("samples", every 5 s, at most 30 s, training::samples),
    kind!("starts of runs", every 5 s, at most 40 s, training::starts),
];

/// One round of a kind.
#[derive(Clone)]
struct Round {
    abuse: Arc<Abuse>,
    kind: &'static str,
    number: u64,
    /// The address that it comes from.
    from: IpAddr,
}

struct Abuse {
    targets: Targets,
    counts: Mutex<BTreeMap<&'static str, BTreeMap<String, u64>>>,
}

impl Round {
    fn targets(&self) -> &Targets {
        &self.abuse.targets
    }

    /// Counts what came of something.
    fn count(&self, what: &str) {
        let mut counts = self.abuse.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(self.kind).or_default().entry(one_line(what, 80).into_owned()).or_default() += 1;
    }

    /// A gRPC server, another in each round.
    fn server(&self) -> SocketAddr {
        let Targets { reward, generation, learner, orchestrator, .. } = self.targets();
        [*reward, *generation, *learner, *orchestrator][self.number as usize % 4]
    }

    async fn channel(&self, to: SocketAddr) -> Result<Channel, Failed> {
        wire::channel(self.from, to).await
    }

    /// Calls a method, and counts the code that it ends with.
    async fn call(&self, channel: &Channel, path: &str, message: bytes::Bytes) -> Result<bytes::Bytes, Failed> {
        let (code, answer) = wire::unary(channel, path, message).await?;
        self.count(&code);
        Ok(answer)
    }
}

/// Abuses the servers for that long. What came of it, by kind.
pub(crate) async fn run(targets: Targets, time: Duration) -> Value {
    let abuse = Arc::new(Abuse { targets, counts: Mutex::default() });
    let end = Instant::now() + time;
    let mut tasks = Vec::new();
    for (index, kind) in KINDS.iter().enumerate() {
        // Kinds do not begin all at once.
        let begin = Instant::now() + kind.period.mul_f64(index as f64 / KINDS.len() as f64).min(time / 4);
        tasks.push(tokio::spawn(go_on(Arc::clone(&abuse), kind, index, begin, end)));
    }
    for task in tasks {
        let _ = task.await;
    }
    let counts = abuse.counts.lock().unwrap_or_else(PoisonError::into_inner);
    json!(*counts)
}

async fn go_on(abuse: Arc<Abuse>, kind: &'static AttackKind, index: usize, begin: Instant, end: Instant) {
    let mut due = begin;
    let mut rounds = tokio::task::JoinSet::new();
    for number in 0.. {
        if due >= end {
            break;
        }
        tokio::time::sleep_until(due).await;
        let host = 2 + (number as usize + index) % 4;
        let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, host as u8));
        let round = Round { abuse: Arc::clone(&abuse), kind: kind.name, number, from };
        rounds.spawn(async move {
            round.count("rounds");
            match tokio::time::timeout(kind.limit, (kind.round)(round.clone())).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => round.count(&format!("broke off: {error}")),
                Err(_) => round.count("its time was over"),
            }
        });
        while rounds.try_join_next().is_some() {}
        due += kind.period;
    }
    while rounds.join_next().await.is_some() {}
}
