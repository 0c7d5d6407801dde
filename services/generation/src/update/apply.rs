//! The weight update of one engine: requests come back, it pauses, loads, is asked what it serves, and resumes. It is
//! resumed even if a step failed; it just gets no samples then. Adapters that an engine takes by name are loaded
//! without a pause (`by_name`).

use std::time::Duration;

use evenkeel_rpc::error::{Reason, ServiceError};
use evenkeel_rpc::retry::RetryPolicy;
use tokio::time::Instant;

use crate::engine::{EngineClient, EngineClientError};
use crate::pool::{EngineControl, EnginePool, EngineState, PooledEngine, version_number};
use crate::settings::PauseSetting;

use super::steps::{UpdateReport, WeightUpdate, settle, until_dead};
use super::{adapter, by_name, tied_head};

/// Attempts to resume an engine.
const RESUME_ATTEMPTS: u32 = 4;
/// Delay between two of them.
const RESUME_DELAY: Duration = Duration::from_millis(100);

impl WeightUpdate {
    /// Updates one engine. The caller holds its control.
    pub(crate) async fn apply(
        &self,
        pool: &EnginePool,
        engine: &PooledEngine,
        control: &mut EngineControl,
    ) -> UpdateReport {
        // While it still samples.
        if let Err(failure) = self.deadline.run(pool.place(engine, &self.weights)).await.flatten() {
            pool.eject(engine, EngineState::Stale, &format!("weights not updated: {failure}"));
            let engine = engine.name();
            let version = self.weights.number;
            tracing::warn!(engine, version, %failure, "weights not fetched for an engine");
            let report = UpdateReport::failed(failure);
            record_metrics(engine, &report);
            return report;
        }
        let by_name = engine.adapter_name(&self.weights).is_some();
        if !(by_name && self.mode == PauseSetting::Wait) {
            pool.announce_pause(engine, self.mode);
        }
        let mut report = UpdateReport::default();
        let mut paused_at = None;
        let loaded = self.deadline.run(async {
            if by_name {
                self.load_by_name(pool, engine, control, &mut report, &mut paused_at).await
            } else {
                self.pause_and_load(pool, engine, control, &mut report, &mut paused_at).await
            }
        });
        let failed = |error: EngineClientError| ServiceError::Unavailable {
            reason: Reason::EngineFailed,
            message: error.to_string(),
        };
        let loaded = loaded.await.and_then(|loaded| loaded.map_err(failed));
        let resumed = match engine.wake(control).await {
            // It was never paused.
            Ok(()) if by_name && paused_at.is_none() => Ok(()),
            Ok(()) => resume(engine.client()).await,
            Err(error) => Err(error),
        };
        report.resumed = resumed.is_ok();
        report.paused = paused_at.map(|since| since.elapsed()).unwrap_or_default();
        let resumed = resumed
            .map_err(|error| ServiceError::Unavailable { reason: Reason::NotResumed, message: error.to_string() });
        let version = self.weights.number;
        let mut outcome = loaded.and(resumed);
        if outcome.is_ok() {
            // One that was lost before may have come back as another process.
            outcome = self.deadline.run(pool.compare(engine)).await.and_then(|compared| compared.map_err(failed));
        }
        match outcome {
            Ok(()) => {
                control.finish_load(&self.weights);
                report.version = Some(version);
                pool.admit(engine, EngineState::Healthy, &self.weights);
                let load_ms = report.load.as_millis() as u64;
                tracing::info!(engine = engine.name(), version, load_ms, "weights updated");
                if engine.names_adapters().is_some() {
                    by_name::unload_unused(pool, engine).await;
                }
            }
            Err(failure) => {
                control.forget_weights();
                pool.eject(engine, EngineState::Stale, &format!("weights not updated: {failure}"));
                report.version = reported_version(engine.client()).await;
                tracing::warn!(engine = engine.name(), version, %failure, "weights not updated");
                report.failure = Some(failure);
            }
        }
        record_metrics(engine.name(), &report);
        report
    }

    async fn pause_and_load(
        &self,
        pool: &EnginePool,
        engine: &PooledEngine,
        control: &mut EngineControl,
        report: &mut UpdateReport,
        paused_at: &mut Option<Instant>,
    ) -> Result<(), EngineClientError> {
        let path = engine.path_of(&self.weights).ok_or(EngineClientError::NotLoadable)?;
        let here = self.weights.path.as_deref().unwrap_or(&path);
        adapter::check_taken(&self.weights, engine.info())?;
        tied_head::check(here, engine.info()).await?;
        if control.is_asleep() {
            *paused_at = Some(Instant::now());
            // It has no request, and takes none.
            engine.wake_for_load(control).await?;
        } else {
            tokio::select! {
                paused = self.pause(pool, engine, paused_at) => paused?,
                error = until_dead(pool, engine) => return Err(error),
            }
        }
        settle(pool, engine).await;
        let started = Instant::now();
        control.begin_load();
        engine.client().load_weights(&path).await?;
        report.load = started.elapsed();
        let label = self.weights.label.as_deref().unwrap_or_default();
        if engine.client().set_weights_label(label).await? {
            let reported = engine.client().weights_label().await?;
            if reported.is_some() && !self.weights.matches(reported.as_deref()) {
                return Err(self.weights.mismatch(reported));
            }
        }
        Ok(())
    }
}

/// Not bound by the update's deadline: an engine must not stay paused because it has passed.
async fn resume(client: &dyn EngineClient) -> Result<(), EngineClientError> {
    let mut retries = RetryPolicy::new(RESUME_DELAY, RESUME_DELAY).with_max_attempts(RESUME_ATTEMPTS).start();
    loop {
        let Err(error) = client.resume().await else { return Ok(()) };
        let retry = retries.next_retry().filter(|_| !error.is_missing_route());
        let Some(retry) = retry else { return Err(error) };
        tracing::debug!(engine = client.endpoint(), %error, "not resumed, retrying");
        tokio::time::sleep(retry.pause).await;
    }
}

/// `None` if the engine has no version or does not answer.
async fn reported_version(client: &dyn EngineClient) -> Option<u64> {
    version_number(client.weights_label().await.ok()?.as_deref())
}

fn record_metrics(engine: &str, report: &UpdateReport) {
    let outcome = if report.failure.is_none() { "updated" } else { "failed" };
    metrics::counter!("evenkeel_weight_updates_total", "engine" => engine.to_owned(), "outcome" => outcome)
        .increment(1);
    metrics::histogram!("evenkeel_weight_update_paused_seconds", "engine" => engine.to_owned()).record(report.paused);
    if report.failure.is_none() {
        metrics::histogram!("evenkeel_weight_update_load_seconds", "engine" => engine.to_owned()).record(report.load);
    }
}
