//! Who judges: this process on all of its cores, or services that run already.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use evenkeel_common::client::{ClientConfig, Connector};
use evenkeel_common::dispatch::{DispatchConfig, Dispatcher, Endpoints};
use evenkeel_common::items::VerifyItems;
use evenkeel_math::Profile;
use evenkeel_proto::v1::{Verdict, VerifyItem};
use evenkeel_reward::{Judge, RewardConfig};

use super::BATCH;

/// How long a service may take to be there.
const PATIENCE: Duration = Duration::from_secs(10);

/// Gives verdicts in the order of the items.
pub(super) enum Judges {
    Here(Judge),
    There(Dispatcher<VerifyItems>, String),
}

impl Judges {
    /// In this process where there are no endpoints.
    pub(super) fn new(endpoints: &[String], profile: &str) -> Result<Self> {
        if endpoints.is_empty() {
            self::profile(profile)?;
            return Ok(Self::Here(Judge::new(&RewardConfig::default())));
        }
        let workers = Endpoints::parse(endpoints)?;
        // A batch is handed over before its first verdict is taken.
        let config = DispatchConfig { max_queued: BATCH, ..DispatchConfig::default() };
        let connector = Connector::new("client", ClientConfig::default())?;
        Ok(Self::There(Dispatcher::start(&config, workers, connector), endpoints.join(", ")))
    }

    pub(super) async fn judge(&self, items: Vec<VerifyItem>) -> Result<Vec<Verdict>> {
        match self {
            Self::Here(judge) => Ok(here(judge, items)),
            Self::There(dispatcher, endpoints) => {
                if !dispatcher.ready(1, PATIENCE).await {
                    let errors: Vec<_> = dispatcher.workers().await.into_iter().map(|w| w.last_error).collect();
                    bail!("--endpoint {endpoints}: nobody answers within {PATIENCE:?}: {}", errors.join("; "));
                }
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
}

/// The rules of that name; the default ones where there is none.
pub(super) fn profile(name: &str) -> Result<Profile> {
    if name.is_empty() {
        return Ok(Profile::default());
    }
    name.parse().map_err(|_| anyhow!("--profile is `{name}`, allowed: {}", Profile::names().join(", ")))
}

/// In shares of neighbouring items, one for each core.
fn here(judge: &Judge, items: Vec<VerifyItem>) -> Vec<Verdict> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let share = items.len().div_ceil(cores).max(1);
    let mut items = items.into_iter();
    std::thread::scope(|scope| {
        let mut shares = Vec::with_capacity(cores);
        for _ in 0..cores {
            let share: Vec<_> = items.by_ref().take(share).collect();
            shares.push(scope.spawn(move || share.into_iter().map(|item| judge.verdict(item)).collect::<Vec<_>>()));
        }
        shares.into_iter().flat_map(|share| share.join().expect("verdicts do not panic")).collect()
    })
}
