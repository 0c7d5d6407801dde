//! Ways to a verdict.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_proto::v1::{Outcome, Verdict, VerifyItem, VerifyOneRequest};
use evenkeel_reward::{RewardSettings, Verifier};
use evenkeel_rpc::dispatch::Pending;
use evenkeel_rpc::items::VerifyItems;
use tokio::task::JoinSet;
use tonic::client::GrpcService;
use tonic::codegen::{Body, Bytes, StdError};
use tonic::transport::Channel;

use super::answers::answers;
use super::certificates::Certificates;
use super::echo;
use super::worker::Worker;

/// Calls at once, as many as a dispatcher gives a worker.
const IN_FLIGHT: usize = 64;
/// No attempt is repeated: that would be measured.
const ATTEMPTS: u32 = 1;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    InPlace,
    Echo,
    Unary,
    UnaryTls,
    Stream,
    StreamTls,
}

impl Way {
    pub(crate) const ALL: [Self; 6] =
        [Self::InPlace, Self::Echo, Self::Unary, Self::UnaryTls, Self::Stream, Self::StreamTls];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InPlace => "judged in place",
            Self::Echo => "unary echo of tonic",
            Self::Unary => "reward worker, unary",
            Self::UnaryTls => "reward worker, unary, TLS",
            Self::Stream => "reward worker, stream",
            Self::StreamTls => "reward worker, stream, TLS",
        }
    }
}

pub(crate) struct Ways {
    verifier: Verifier,
    echo: Channel,
    plain: Worker,
    tls: Worker,
}

impl Ways {
    pub(crate) async fn start(certificates: &Certificates) -> Result<Self> {
        let verifier = Verifier::new(&RewardSettings::default(), None);
        let sample = answers(1).pop().map(|item| verifier.verdict(item)).context("no answer")?;
        let echo = echo::start(sample).await?;
        Ok(Self { verifier, echo, plain: Worker::start(None).await?, tls: Worker::start(Some(certificates)).await? })
    }

    /// Has every item judged one way.
    pub(crate) async fn take(&self, way: Way, items: Vec<VerifyItem>) -> Result<()> {
        let count = items.len();
        let right = match way {
            Way::InPlace => items.into_iter().map(|item| self.verifier.verdict(item)).filter(is_right).count(),
            // The one verdict of an echo is on a right answer.
            Way::Echo => {
                let right = unary(self.echo.clone(), items).await?;
                ensure!(right == count, "{right} of {count} answers of the echo arrived");
                return Ok(());
            }
            Way::Unary => unary(self.plain.channel.clone(), items).await?,
            Way::UnaryTls => unary(self.tls.channel.clone(), items).await?,
            Way::Stream => stream(&self.plain, items).await?,
            Way::StreamTls => stream(&self.tls, items).await?,
        };
        ensure!(right == count.div_ceil(2), "{right} of {count} answers are right, expected half of them");
        Ok(())
    }
}

fn is_right(verdict: &Verdict) -> bool {
    verdict.outcome() == Outcome::Correct
}

/// One call for each item, a fixed number at once. How many answers are right.
async fn unary<C>(channel: C, items: Vec<VerifyItem>) -> Result<usize>
where
    C: GrpcService<tonic::body::Body> + Clone + Send + 'static,
    C::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <C::ResponseBody as Body>::Error: Into<StdError> + Send,
    C::Future: Send,
{
    let items = Arc::new(Mutex::new(items.into_iter()));
    let mut calls = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let items = Arc::clone(&items);
        let mut client = RewardClient::new(channel.clone());
        calls.spawn(async move {
            let mut right = 0;
            let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
            while let Some(item) = next() {
                let answer = client.verify_one(VerifyOneRequest { item: Some(item) }).await?.into_inner();
                right += usize::from(answer.verdict.as_ref().is_some_and(is_right));
            }
            anyhow::Ok(right)
        });
    }
    let mut right = 0;
    while let Some(done) = calls.join_next().await {
        right += done??;
    }
    Ok(right)
}

/// All items over the stream that a run uses. How many answers are right.
async fn stream(worker: &Worker, items: Vec<VerifyItem>) -> Result<usize> {
    let mut right = 0;
    let mut pending: VecDeque<Pending<VerifyItems>> = VecDeque::new();
    for item in items {
        if pending.len() == IN_FLIGHT {
            let first = pending.pop_front().context("an item is pending")?;
            right += usize::from(is_right(&first.await.result?));
        }
        pending.push_back(worker.dispatcher.submit(item, ATTEMPTS).await?);
    }
    for one in pending {
        right += usize::from(is_right(&one.await.result?));
    }
    Ok(right)
}
