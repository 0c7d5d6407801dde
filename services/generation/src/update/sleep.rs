//! Engines that share a GPU with the learner: asleep while it trains. They wake for their next weights, or when
//! `WakeUp` is called.

use std::future::Future;
use std::sync::Arc;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{EngineSleep, SleepLevel, SleepRequest, SleepResponse, WakeUpRequest, WakeUpResponse};
use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::error::{Reason, ServiceError};
use tokio::time::Instant;

use super::steps::{WeightUpdate, until_dead};
use super::{Updater, micros, on_each};
use crate::engine::EngineClientError;
use crate::pool::{EnginePool, EngineState, PooledEngine};
use crate::settings::PauseSetting;

impl Updater {
    /// Puts every engine to sleep once its samples have ended.
    pub(crate) async fn sleep(&self, request: SleepRequest, call: Deadline) -> Result<SleepResponse, ServiceError> {
        let level = match SleepLevel::try_from(request.level) {
            Ok(SleepLevel::Discard) => SleepLevel::Discard,
            Ok(_) => SleepLevel::Offload,
            Err(_) => {
                let allowed = "SLEEP_LEVEL_OFFLOAD (1) or SLEEP_LEVEL_DISCARD (2)";
                return Err(FieldError::new("level", request.level, allowed).into());
            }
        };
        let deadline = self.deadline(call, request.deadline_ms);
        let begin = move |pool: &EnginePool| {
            let weights = pool.weights();
            if level == SleepLevel::Discard && (!weights.is_loadable() || weights.is_adapter) {
                let have = if weights.is_adapter { "compute an adapter beside" } else { "have" };
                return Err(ServiceError::Precondition {
                    reason: Reason::FirstWeights,
                    message: format!(
                        "level is SLEEP_LEVEL_DISCARD, allowed: SLEEP_LEVEL_OFFLOAD, since the engines {have} the \
                         weights that they were started with, which could not be loaded again"
                    ),
                });
            }
            pool.set_sleeping(true);
            Ok(())
        };
        let operation = move |pool, engine| put_to_sleep(pool, engine, level, deadline);
        let engines = self.on_each_in_turn(deadline, begin, operation).await?;
        if !engines.iter().any(|engine| engine.asleep) {
            // No memory was freed, so the engines may as well go on sampling.
            self.pool.set_sleeping(false);
            self.pool.members().iter().for_each(|engine| engine.request_check());
        }
        Ok(SleepResponse { engines })
    }

    /// Wakes every engine with the weights that it went to sleep with.
    pub(crate) async fn wake(&self, request: WakeUpRequest, call: Deadline) -> Result<WakeUpResponse, ServiceError> {
        let deadline = self.deadline(call, request.deadline_ms);
        let begin = |pool: &EnginePool| {
            pool.set_sleeping(false);
            Ok(())
        };
        let operation = move |pool, engine| wake_up(pool, engine, deadline);
        Ok(WakeUpResponse { engines: self.on_each_in_turn(deadline, begin, operation).await? })
    }

    /// Waits for other calls, then runs `begin`, then `operation` on every engine. It is finished even if the caller
    /// goes away.
    async fn on_each_in_turn<F>(
        &self,
        deadline: Deadline,
        begin: impl FnOnce(&EnginePool) -> Result<(), ServiceError> + Send + 'static,
        operation: impl Fn(Arc<EnginePool>, Arc<PooledEngine>) -> F + Send + 'static,
    ) -> Result<Vec<EngineSleep>, ServiceError>
    where
        F: Future<Output = EngineSleep> + Send + 'static,
    {
        let pool = Arc::clone(&self.pool);
        let turn = Arc::clone(&self.turn);
        let task = tokio::spawn(async move {
            let _turn = deadline.run(turn.lock()).await?;
            begin(&pool)?;
            Ok(on_each(&pool, operation).await)
        });
        task.await.map_err(|error| ServiceError::Internal { message: format!("the task failed: {error}") })?
    }
}

async fn put_to_sleep(
    pool: Arc<EnginePool>,
    engine: Arc<PooledEngine>,
    level: SleepLevel,
    deadline: Deadline,
) -> EngineSleep {
    let started = Instant::now();
    let failure = try_to_sleep(&pool, &engine, level, deadline).await.err();
    report(&engine, failure.is_none(), failure.as_ref(), started)
}

async fn try_to_sleep(
    pool: &EnginePool,
    engine: &PooledEngine,
    level: SleepLevel,
    deadline: Deadline,
) -> Result<(), ServiceError> {
    let mut control = deadline.run(engine.control().lock()).await?;
    pool.pause(engine);
    let idle = async {
        tokio::select! {
            () = pool.until_idle(engine) => Ok(()),
            error = until_dead(pool, engine) => Err(error),
        }
    };
    match deadline.run(idle).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            pool.eject(engine, EngineState::CircuitOpen, &error.to_string());
            return Err(service_error(engine, &error));
        }
        Err(deadline) => {
            // Nothing was sent to it, and it still has its samples.
            pool.unpause(engine);
            return Err(deadline);
        }
    }
    let session = pool.session(engine);
    let failure = match deadline.run(engine.sleep(&mut control, level, session.weights())).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => service_error(engine, &error),
        Err(deadline) => deadline,
    };
    // It is unknown how far it got. The health monitor treats it like a lost engine, and wakes it if that fails here.
    if let Err(error) = engine.wake(&mut control).await {
        tracing::warn!(engine = engine.name(), %error, "not woken after it failed to sleep");
    }
    pool.eject(engine, EngineState::CircuitOpen, &format!("it could not be put to sleep: {failure}"));
    Err(failure)
}

async fn wake_up(pool: Arc<EnginePool>, engine: Arc<PooledEngine>, deadline: Deadline) -> EngineSleep {
    let started = Instant::now();
    let failure = match deadline.run(try_to_wake(&pool, &engine, deadline)).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) | Err(error) => Some(error),
    };
    if let Some(failure) = &failure {
        // The health monitor wakes it.
        pool.eject(&engine, EngineState::CircuitOpen, &failure.to_string());
    }
    engine.request_check();
    report(&engine, engine.is_asleep(), failure.as_ref(), started)
}

async fn try_to_wake(pool: &EnginePool, engine: &PooledEngine, deadline: Deadline) -> Result<(), ServiceError> {
    let weights = pool.weights();
    let mut control = engine.control().lock().await;
    if !control.is_asleep() {
        // It never slept, or was lost meanwhile: then the health monitor brings it back.
        return Ok(());
    }
    if control.is_uncertain() {
        let update = WeightUpdate { weights, mode: PauseSetting::Wait, clear_cache: true, deadline };
        return update.apply(pool, engine, &mut control).await.failure.map_or(Ok(()), Err);
    }
    engine.wake(&mut control).await.map_err(|error| service_error(engine, &error))?;
    let reported = engine.reported(&weights).await.map_err(|error| service_error(engine, &error))?;
    if control.has(&weights, reported.as_deref()) {
        // One that was lost while it slept is compared by the health monitor before it serves.
        if !pool.is_comparison_due(engine) {
            pool.admit(engine, EngineState::Healthy, &weights);
        }
    } else {
        // It restarted meanwhile, or was stale before: the health monitor updates it.
        pool.eject(engine, EngineState::CircuitOpen, "it woke with other weights");
    }
    Ok(())
}

fn report(engine: &PooledEngine, asleep: bool, failure: Option<&ServiceError>, started: Instant) -> EngineSleep {
    EngineSleep {
        engine: engine.name().to_owned(),
        asleep,
        failure: failure.map(ServiceError::failure),
        took_us: micros(started.elapsed()),
    }
}

fn service_error(engine: &PooledEngine, error: &EngineClientError) -> ServiceError {
    if error.is_missing_route() {
        let advice = engine.info().map_or("", |info| info.advice.sleep);
        let message = format!("{error}; {advice}");
        return ServiceError::Precondition { reason: Reason::SleepUnsupported, message };
    }
    ServiceError::Unavailable { reason: Reason::EngineFailed, message: error.to_string() }
}
