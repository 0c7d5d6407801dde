//! Adapters that an engine takes by name: a new version is loaded beside what it samples from, and nothing is paused
//! for it. Samples in flight go on under the name of theirs; an earlier adapter is unloaded once no sample asks for it.
//!
//! A version is never loaded in place: an engine may key cached prefixes by name and folder, or read the folder again
//! at every use.

use evenkeel_proto::FieldError;
use tokio::time::Instant;

use super::adapter;
use super::steps::{UpdateReport, WeightUpdate, settle, until_dead};
use crate::engine::{EngineClientError, NamedAdapter};
use crate::pool::{EngineControl, EnginePool, PooledEngine, is_own_label};
use crate::settings::PauseSetting;

impl WeightUpdate {
    /// Loads an adapter under the name of its version. As many earlier ones stay as the engine was started for.
    pub(super) async fn load_by_name(
        &self,
        pool: &EnginePool,
        engine: &PooledEngine,
        control: &mut EngineControl,
        report: &mut UpdateReport,
        paused_at: &mut Option<Instant>,
    ) -> Result<(), EngineClientError> {
        let path = engine.path_of(&self.weights).ok_or(EngineClientError::NotLoadable)?;
        let name = engine.adapter_name(&self.weights).ok_or(EngineClientError::NotLoadable)?;
        adapter::check_taken(&self.weights, engine.info())?;
        check_base(engine).await?;
        // An adapter takes memory that a sleeping engine has given away.
        engine.wake(control).await?;

        // With this one, unless that is among those in use already.
        let live = engine.names_adapters().map_or(1, |limits| limits.live);
        let most = if pool.uses(engine, name) { live } else { live.saturating_sub(1) };
        if self.mode != PauseSetting::Wait && !pool.has_at_most(engine, most) {
            self.call_back(pool, engine, paused_at).await?;
        }
        tokio::select! {
            () = pool.until_at_most(engine, most) => {}
            error = until_dead(pool, engine) => return Err(error),
        }
        let found = engine.client().adapters().await?;
        unload(engine, &found, |adapter| !pool.uses(engine, adapter) && adapter != name).await?;
        if control.is_uncertain() || !self.weights.matches(engine.reported(&self.weights).await?.as_deref()) {
            let started = Instant::now();
            control.begin_load();
            engine.load_adapter(name, &path, &found).await?;
            report.load = started.elapsed();
        }
        let reported = engine.reported(&self.weights).await?;
        if !self.weights.matches(reported.as_deref()) {
            return Err(self.weights.mismatch(reported));
        }
        if self.mode != PauseSetting::Wait && paused_at.is_none() && !pool.is_idle(engine) {
            self.call_back(pool, engine, paused_at).await?;
        }
        Ok(())
    }

    /// Takes back what the engine has in flight.
    async fn call_back(
        &self,
        pool: &EnginePool,
        engine: &PooledEngine,
        paused_at: &mut Option<Instant>,
    ) -> Result<(), EngineClientError> {
        tokio::select! {
            paused = self.pause(pool, engine, paused_at) => paused?,
            error = until_dead(pool, engine) => return Err(error),
        }
        settle(pool, engine).await;
        Ok(())
    }
}

/// Refuses an engine whose model this service has replaced since it was started: an adapter is none of those weights.
async fn check_base(engine: &PooledEngine) -> Result<(), EngineClientError> {
    match engine.client().weights_label().await? {
        Some(label) if is_own_label(&label) => {
            let allowed =
                "the weights that the engine was started with, beside which an adapter is computed: restart it";
            Err(EngineClientError::Incompatible(FieldError::new("weight_version", label, allowed)))
        }
        _ => Ok(()),
    }
}

/// Unloads what no sample is drawn from any more. What cannot be unloaded now is tried again with the next update.
pub(crate) async fn unload_unused(pool: &EnginePool, engine: &PooledEngine) {
    pool.forget_earlier(engine);
    let unloaded = async {
        let found = engine.client().adapters().await?;
        unload(engine, &found, |adapter| !pool.uses(engine, adapter)).await
    };
    if let Err(error) = unloaded.await {
        tracing::warn!(engine = engine.name(), %error, "an adapter that is not used any more was not unloaded");
    }
}

/// Unloads adapters that this service has loaded, or one before it. Those of others are left alone.
async fn unload(
    engine: &PooledEngine,
    found: &[NamedAdapter],
    is_unused: impl Fn(&str) -> bool,
) -> Result<(), EngineClientError> {
    for NamedAdapter { name, .. } in found.iter().filter(|found| is_own_label(&found.name) && is_unused(&found.name)) {
        engine.unload_adapter(name).await?;
        tracing::info!(engine = engine.name(), adapter = name, "adapter unloaded");
    }
    Ok(())
}
