//! Health monitoring: is each engine up, does it have the current weights, may it serve again. Engines with other
//! weights are updated.

mod gauges;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::retry::{Backoff, RetryPolicy};
use tokio_util::sync::CancellationToken;

use crate::engine::EngineClientError;
use crate::health::HealthThreshold;
use crate::pool::{BreakerState, EngineControl, EnginePool, EngineState, PooledEngine, WeightsVersion, version_number};
use crate::settings::PauseSetting;
use crate::update::{WeightUpdate, unload_unused};
use gauges::Gauges;

/// How often the pool as a whole is looked at.
const POOL_INTERVAL: Duration = Duration::from_millis(200);

/// Expires requests and publishes gauges until `stop`.
pub(crate) fn monitor_pool(pool: &Arc<EnginePool>, stop: &CancellationToken) {
    let pool = Arc::clone(pool);
    let stop = stop.clone();
    tokio::spawn(async move {
        let ticking = async {
            let mut ticks = tokio::time::interval(POOL_INTERVAL);
            let mut gauges = Gauges::default();
            loop {
                ticks.tick().await;
                pool.expire();
                gauges.publish(&pool);
            }
        };
        stop.run_until_cancelled(ticking).await
    });
}

/// The health monitor of one engine.
pub(crate) struct HealthMonitor {
    pool: Arc<EnginePool>,
    engine: Arc<PooledEngine>,
    threshold: HealthThreshold,
    backoff: Backoff,
}

impl HealthMonitor {
    /// Monitors `engine` until `stop`.
    pub(crate) fn spawn(pool: &Arc<EnginePool>, engine: &Arc<PooledEngine>, stop: &CancellationToken) {
        let settings = &pool.settings().engine;
        let backoff = RetryPolicy::new(settings.probe_initial, settings.probe_max).backoff();
        let threshold = HealthThreshold::new(settings);
        let mut monitor = Self { pool: Arc::clone(pool), engine: Arc::clone(engine), threshold, backoff };
        let stop = stop.clone();
        tokio::spawn(async move { stop.run_until_cancelled(monitor.run()).await });
    }

    async fn run(&mut self) {
        let mut delay = self.pool.settings().engine.health_interval;
        loop {
            tokio::select! {
                () = self.engine.check_requested() => {}
                // A drained engine is left alone until its address is back.
                () = tokio::time::sleep(delay), if !self.pool.is_drained(&self.engine) => {}
            }
            delay = self.check().await;
        }
    }

    /// Checks the engine and returns the delay before the next check.
    async fn check(&mut self) -> Duration {
        let pool = Arc::clone(&self.pool);
        let engine = Arc::clone(&self.engine);
        let settings = &pool.settings().engine;
        // Somebody is changing its weights and will report how that went.
        let Ok(mut control) = engine.control().try_lock() else { return settings.health_interval };
        match self.examine(&mut control).await {
            Ok(()) => {
                self.threshold.record_success();
                self.backoff.reset();
                settings.health_interval
            }
            Err(error) => {
                if self.threshold.record_failure(&error) {
                    self.eject(&mut control, &error);
                }
                self.backoff.next_pause()
            }
        }
    }

    fn eject(&self, control: &mut EngineControl, error: &EngineClientError) {
        let (state, _) = self.pool.state(&self.engine);
        if state == EngineState::Draining && matches!(error, EngineClientError::Transport { .. }) {
            // A server that shuts down takes no new connections, and still finishes what it has.
            return;
        }
        if state.is_serving() {
            tracing::warn!(engine = self.engine.name(), %error, "engine ejected");
        }
        control.forget_weights();
        let state = if state == EngineState::Stale { EngineState::Stale } else { EngineState::CircuitOpen };
        self.pool.eject(&self.engine, state, &error.to_string());
    }

    async fn examine(&self, control: &mut EngineControl) -> Result<(), EngineClientError> {
        let pool = &*self.pool;
        let engine = &*self.engine;
        pool.probe(engine).await?;
        control.consider_probe(engine.info().is_some_and(|info| info.found_paused));
        let connections = engine.client().connections();
        engine.client().health().await?;
        let wanted = pool.weights();
        let reported = engine.reported(&wanted).await?;
        if pool.settings().engine.max_waiting > 0 {
            // An engine without metrics, or with ones that cannot be read now, is bounded by `max_in_flight` alone.
            pool.set_metrics(engine, engine.client().metrics().await.ok().flatten());
        }
        let (state, weights) = pool.state(engine);
        if matches!(state, EngineState::Paused | EngineState::Draining) || pool.is_sleeping() || weights != wanted {
            return Ok(());
        }
        if control.has(&weights, reported.as_deref()) {
            engine.wake(control).await?;
            engine.mark_verified(connections);
            if !state.is_serving() {
                self.readmit(&weights).await?;
            }
            if pool.forget_earlier(engine) && engine.names_adapters().is_some() {
                unload_unused(pool, engine).await;
            }
            return Ok(());
        }
        pool.set_reported_version(engine, version_number(reported.as_deref()));
        if state != EngineState::Stale {
            let error = weights.mismatch(reported);
            tracing::warn!(engine = engine.name(), %error, "engine is stale");
            pool.eject(engine, EngineState::Stale, &error.to_string());
        }
        if !weights.is_loadable() {
            // The next update will bring weights that can be loaded.
            return Ok(());
        }
        let update = WeightUpdate {
            weights,
            mode: PauseSetting::Abort,
            clear_cache: true,
            deadline: Deadline::after(pool.settings().weights.update_timeout),
        };
        match update.apply(pool, engine, control).await.failure {
            None => Ok(()),
            Some(failure) => Err(EngineClientError::NotUpdated(failure)),
        }
    }

    /// Readmits an engine that is up and has the right weights, on probation. If its breaker tripped, it has to draw a
    /// sample first.
    ///
    /// # Errors
    /// Samples that depend on their batch, where that is not allowed.
    async fn readmit(&self, weights: &WeightsVersion) -> Result<(), EngineClientError> {
        let pool = &*self.pool;
        let engine = &*self.engine;
        match pool.breaker(engine) {
            BreakerState::Closed => {}
            BreakerState::BackingOff => return Ok(()),
            BreakerState::ProbeDue => {
                // A busy engine may let the probe wait: that is no reason to take back what it has.
                if let Err(error) = engine.client().check_sampling().await {
                    tracing::debug!(engine = engine.name(), %error, "engine does not sample yet");
                    return Ok(());
                }
            }
        }
        pool.compare(engine).await?;
        pool.admit(engine, EngineState::Suspect, weights);
        tracing::info!(engine = engine.name(), "engine readmitted");
        Ok(())
    }
}
