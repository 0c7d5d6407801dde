//! Judging in this process, on all of its cores, or by running services.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use evenkeel_proto::v1::{Verdict, VerifyItem};
use evenkeel_reward::{RewardSettings, Verifier, Work};
use evenkeel_rpc::client::{ClientSettings, Connector};
use evenkeel_rpc::dispatch::{DispatchOptions, Dispatcher, Endpoints};
use evenkeel_rpc::items::VerifyItems;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Items per batch: enough to keep every core busy, few enough to keep in memory.
pub(super) const BATCH: usize = 4096;

/// Attempts at an item: another worker may have it after one was lost or failed.
const MAX_ATTEMPTS: u32 = 3;

/// Time limit for the first service to become available.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Judges items in this process or by services. Clones share the verifier or the connections.
#[derive(Clone)]
pub(super) enum Judges {
    Local(Arc<Verifier>),
    /// With the endpoints, for messages.
    Remote(Dispatcher<VerifyItems>, String),
}

impl Judges {
    /// Judges by the services at `endpoints`, or in this process with `settings` if there are none.
    pub(super) fn new(endpoints: &[String], settings: &RewardSettings) -> Result<Self> {
        if endpoints.is_empty() {
            return Ok(Self::Local(Arc::new(Verifier::new(settings, Some(crate::guest::worker_process)))));
        }
        let workers = Endpoints::parse(endpoints)?;
        // A batch is submitted completely before its first verdict is received.
        let options = DispatchOptions { max_pending: 4 * BATCH, ..DispatchOptions::default() };
        let connector = Connector::new("client", ClientSettings::default())?;
        Ok(Self::Remote(Dispatcher::start(&options, workers, connector), endpoints.join(", ")))
    }

    /// Waits until a service is available.
    pub(super) async fn ready(&self) -> Result<()> {
        if let Self::Remote(dispatcher, endpoints) = self
            && !dispatcher.ready(1, READY_TIMEOUT).await
        {
            let errors: Vec<_> = dispatcher
                .workers()
                .await
                .into_iter()
                .filter_map(|worker| Some(worker.last_error?.to_string()))
                .collect();
            bail!("--endpoint {endpoints}: no answer within {READY_TIMEOUT:?}: {}", errors.join("; "));
        }
        Ok(())
    }

    /// Judges mathematical items. The verdicts are in the order of the items.
    pub(super) async fn batch(&self, items: Vec<VerifyItem>) -> Result<Vec<Verdict>> {
        match self {
            Self::Local(verifier) => Ok(judge_in_parallel(verifier, items)),
            Self::Remote(dispatcher, _) => {
                self.ready().await?;
                let mut pending = Vec::with_capacity(items.len());
                for item in items {
                    pending.push(dispatcher.submit(item, MAX_ATTEMPTS).await?);
                }
                let mut verdicts = Vec::with_capacity(pending.len());
                for verdict in pending {
                    verdicts.push(verdict.await.result.context("--endpoint")?);
                }
                Ok(verdicts)
            }
        }
    }

    /// Judges an item of any kind.
    pub(super) async fn one(&self, item: VerifyItem) -> Result<Verdict> {
        match self {
            Self::Remote(dispatcher, _) => dispatcher.call(item, MAX_ATTEMPTS).await.result.context("--endpoint"),
            Self::Local(verifier) => match verifier.accept(item) {
                Err(verdict) => Ok(*verdict),
                Ok(Work::Math(work)) => Ok(verifier.math(work)),
                Ok(Work::Code(work)) => {
                    let (sender, receiver) = oneshot::channel();
                    let verifier = Arc::clone(verifier);
                    let submitting = tokio::task::spawn_blocking(move || {
                        // The receiver waits below, unless the command was aborted.
                        verifier.code(work, CancellationToken::new(), |verdict| drop(sender.send(verdict)));
                    });
                    submitting.await?;
                    receiver.await.context("the sandbox gave no verdict")
                }
            },
        }
    }
}

/// Judges contiguous shares of the items, one per core.
fn judge_in_parallel(verifier: &Verifier, items: Vec<VerifyItem>) -> Vec<Verdict> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let share = items.len().div_ceil(cores).max(1);
    let mut items = items.into_iter();
    std::thread::scope(|scope| {
        let mut shares = Vec::with_capacity(cores);
        for _ in 0..cores {
            let share: Vec<_> = items.by_ref().take(share).collect();
            shares.push(scope.spawn(move || share.into_iter().map(|item| verifier.verdict(item)).collect::<Vec<_>>()));
        }
        // A panic while judging results in a verdict on its item and does not get here.
        let joined =
            |share: std::thread::ScopedJoinHandle<'_, _>| share.join().unwrap_or_else(|panic| resume_unwind(panic));
        shares.into_iter().flat_map(joined).collect()
    })
}
