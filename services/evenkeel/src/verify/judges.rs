//! Who judges: this process on all of its cores, or services that run already.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use evenkeel_proto::v1::{Verdict, VerifyItem};
use evenkeel_reward::{Cancel, Judge, RewardConfig, Work};
use evenkeel_rpc::client::{ClientSettings, Connector};
use evenkeel_rpc::dispatch::{DispatchOptions, Dispatcher, Endpoints};
use evenkeel_rpc::items::VerifyItems;
use tokio::sync::oneshot;

/// Items that are judged together: enough to keep every core busy, few enough to hold.
pub(super) const BATCH: usize = 4096;

/// How long a service may take to be there.
const PATIENCE: Duration = Duration::from_secs(10);

/// Gives verdicts in the order of the items. Clones are the same.
#[derive(Clone)]
pub(super) enum Judges {
    Here(Arc<Judge>),
    There(Dispatcher<VerifyItems>, String),
}

impl Judges {
    /// In this process, by these settings, where there are no endpoints.
    pub(super) fn new(endpoints: &[String], config: &RewardConfig) -> Result<Self> {
        if endpoints.is_empty() {
            return Ok(Self::Here(Arc::new(Judge::new(config, Some(crate::guest::cells)))));
        }
        let workers = Endpoints::parse(endpoints)?;
        // A batch is handed over before its first verdict is taken; a row may have several gold answers.
        let options = DispatchOptions { max_pending: 4 * BATCH, ..DispatchOptions::default() };
        let connector = Connector::new("client", ClientSettings::default())?;
        Ok(Self::There(Dispatcher::start(&options, workers, connector), endpoints.join(", ")))
    }

    /// Waits until there is somebody to judge.
    pub(super) async fn ready(&self) -> Result<()> {
        if let Self::There(dispatcher, endpoints) = self
            && !dispatcher.ready(1, PATIENCE).await
        {
            let errors: Vec<_> = dispatcher.workers().await.into_iter().map(|worker| worker.last_error).collect();
            bail!("--endpoint {endpoints}: nobody answers within {PATIENCE:?}: {}", errors.join("; "));
        }
        Ok(())
    }

    /// Verdicts on items that take CPU time alone.
    pub(super) async fn batch(&self, items: Vec<VerifyItem>) -> Result<Vec<Verdict>> {
        match self {
            Self::Here(judge) => Ok(shared_out(judge, items)),
            Self::There(dispatcher, _) => {
                self.ready().await?;
                let mut pending = Vec::with_capacity(items.len());
                for item in items {
                    pending.push(dispatcher.submit(item).await?);
                }
                let mut verdicts = Vec::with_capacity(pending.len());
                for verdict in pending {
                    verdicts.push(verdict.await.context("--endpoint")?);
                }
                Ok(verdicts)
            }
        }
    }

    /// The verdict on one item, whatever it takes.
    pub(super) async fn one(&self, item: VerifyItem) -> Result<Verdict> {
        match self {
            Self::There(dispatcher, _) => dispatcher.submit(item).await?.await.context("--endpoint"),
            Self::Here(judge) => match judge.accept(item) {
                Err(verdict) => Ok(*verdict),
                Ok(Work::Math(work)) => Ok(judge.math(work)),
                Ok(Work::Code(work)) => {
                    let (sender, receiver) = oneshot::channel();
                    let judge = Arc::clone(judge);
                    let submitting = tokio::task::spawn_blocking(move || {
                        // The receiver waits below, or the command has ended.
                        judge.code(work, Cancel::new(), |verdict| drop(sender.send(verdict)));
                    });
                    submitting.await?;
                    receiver.await.context("the sandbox gave no verdict")
                }
            },
        }
    }
}

/// In shares of neighbouring items, one for each core.
fn shared_out(judge: &Judge, items: Vec<VerifyItem>) -> Vec<Verdict> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let share = items.len().div_ceil(cores).max(1);
    let mut items = items.into_iter();
    std::thread::scope(|scope| {
        let mut shares = Vec::with_capacity(cores);
        for _ in 0..cores {
            let share: Vec<_> = items.by_ref().take(share).collect();
            shares.push(scope.spawn(move || share.into_iter().map(|item| judge.verdict(item)).collect::<Vec<_>>()));
        }
        // Judging contains its own panics, each in the verdict of its item.
        let joined =
            |share: std::thread::ScopedJoinHandle<'_, _>| share.join().unwrap_or_else(|panic| resume_unwind(panic));
        shares.into_iter().flat_map(joined).collect()
    })
}
