//! An update of the weights of one engine, and the steps that all of its ways share.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::error::ServiceError;
use tokio::time::Instant;

use crate::engine::{EngineClientError, EnginePause};
use crate::health::HealthThreshold;
use crate::pool::{EnginePool, Interruption, PooledEngine, WeightsVersion};
use crate::settings::PauseSetting;

/// An update to a weights version.
#[derive(Debug, Clone)]
pub(crate) struct WeightUpdate {
    pub(crate) weights: Arc<WeightsVersion>,
    /// How requests in flight are treated.
    pub(crate) mode: PauseSetting,
    pub(crate) clear_cache: bool,
    pub(crate) deadline: Deadline,
}

/// What became of an engine's update.
#[derive(Debug, Clone, Default)]
pub(crate) struct UpdateReport {
    /// The version that the engine reports at the end.
    pub(crate) version: Option<u64>,
    /// Whether it samples again.
    pub(crate) resumed: bool,
    /// `None` if it has the new weights.
    pub(crate) failure: Option<ServiceError>,
    pub(crate) paused: Duration,
    pub(crate) load: Duration,
}

impl UpdateReport {
    /// Report of an engine that had the weights already.
    pub(super) fn current(version: u64) -> Self {
        Self { version: Some(version), resumed: true, ..Self::default() }
    }

    /// Report of an engine that was not even paused.
    pub(super) fn failed(failure: ServiceError) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }
}

impl WeightUpdate {
    /// Ends samples in flight, or takes them back.
    pub(super) async fn pause(
        &self,
        pool: &EnginePool,
        engine: &PooledEngine,
        paused_at: &mut Option<Instant>,
    ) -> Result<(), EngineClientError> {
        if self.mode == PauseSetting::Wait {
            pool.until_finished(engine).await;
        }
        *paused_at = Some(Instant::now());
        // Samples that go on under the new weights are aborted as well: what they have comes back, and is continued by
        // a new request.
        let mode = if self.mode == PauseSetting::Wait { EnginePause::Wait } else { EnginePause::Abort };
        engine.client().pause(mode, self.clear_cache).await
    }
}

/// Waits until a paused engine has no sample.
pub(super) async fn settle(pool: &EnginePool, engine: &PooledEngine) {
    let settle_timeout = pool.settings().weights.settle_timeout;
    if tokio::time::timeout(settle_timeout, pool.until_idle(engine)).await.is_err() {
        // Requests that reached the engine after the pause wait there for its end.
        pool.interrupt(engine, &Interruption::Paused);
        pool.until_idle(engine).await;
    }
}

/// Ends with an error once the engine has failed too many health checks. The health monitor is locked out while its
/// control is held.
pub(super) async fn until_dead(pool: &EnginePool, engine: &PooledEngine) -> EngineClientError {
    let settings = &pool.settings().engine;
    let mut threshold = HealthThreshold::new(settings);
    loop {
        tokio::time::sleep(settings.health_interval).await;
        match engine.client().health().await {
            Ok(()) => threshold.record_success(),
            Err(error) if threshold.record_failure(&error) => return error,
            Err(_) => {}
        }
    }
}
