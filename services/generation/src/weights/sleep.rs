//! Engines that share a GPU with the learner: asleep while it trains. What has been put to sleep wakes with its next weights, or when it
//! is told to.

use std::future::Future;
use std::sync::Arc;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{EngineSleep, SleepLevel, SleepRequest, SleepResponse, WakeUpRequest, WakeUpResponse};
use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::error::ServiceError;
use tokio::time::Instant;

use super::switch::{Switch, dies, switch};
use super::update::{Updater, each, micros};
use crate::engine::EngineError;
use crate::fleet::{Fleet, Member, Standing};
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
        let deadline = self.until(call, request.deadline_ms);
        let engines = self.on_all(deadline, move |fleet, engine| to_sleep(fleet, engine, level, deadline), {
            move |fleet: &Fleet| {
                if level == SleepLevel::Discard && fleet.target().path.is_empty() {
                    return Err(ServiceError::Precondition {
                        reason: "FIRST_WEIGHTS",
                        message: "level is SLEEP_LEVEL_DISCARD, allowed: SLEEP_LEVEL_OFFLOAD, since engines have the \
                                  weights that they began with and nobody could give them again"
                            .to_owned(),
                    });
                }
                fleet.rest(true);
                Ok(())
            }
        });
        let engines = engines.await?;
        if !engines.iter().any(|engine| engine.asleep) {
            // Nothing was gained: whoever can sample should.
            self.fleet.rest(false);
            self.fleet.present().into_iter().for_each(|engine| self.fleet.member(engine).kick.notify_one());
        }
        Ok(SleepResponse { engines })
    }

    /// Wakes every engine, with the weights that it went to sleep with.
    pub(crate) async fn wake(&self, request: WakeUpRequest, call: Deadline) -> Result<WakeUpResponse, ServiceError> {
        let deadline = self.until(call, request.deadline_ms);
        let begin = |fleet: &Fleet| {
            fleet.rest(false);
            Ok(())
        };
        let engines = self.on_all(deadline, move |fleet, engine| awake(fleet, engine, deadline), begin);
        Ok(WakeUpResponse { engines: engines.await? })
    }

    /// Does it to every engine at once, after `begin`. What was begun is finished also where the caller goes away.
    async fn on_all<F>(
        &self,
        deadline: Deadline,
        one: impl Fn(Arc<Fleet>, usize) -> F + Send + 'static,
        begin: impl FnOnce(&Fleet) -> Result<(), ServiceError> + Send + 'static,
    ) -> Result<Vec<EngineSleep>, ServiceError>
    where
        F: Future<Output = EngineSleep> + Send + 'static,
    {
        let (fleet, turn) = (Arc::clone(&self.fleet), Arc::clone(&self.turn));
        let task = tokio::spawn(async move {
            let _turn = deadline.run(turn.lock()).await?;
            begin(&fleet)?;
            Ok(each(&fleet, one).await)
        });
        task.await.map_err(|error| ServiceError::Internal { message: format!("it broke off: {error}") })?
    }
}

async fn to_sleep(fleet: Arc<Fleet>, engine: usize, level: SleepLevel, deadline: Deadline) -> EngineSleep {
    let begun = Instant::now();
    let failure = try_to_sleep(&fleet, engine, level, deadline).await.err();
    told(&fleet.member(engine), failure.is_none(), failure.as_ref(), begun)
}

fn told(member: &Member, asleep: bool, failure: Option<&ServiceError>, begun: Instant) -> EngineSleep {
    EngineSleep {
        engine: member.name.clone(),
        asleep,
        failure: failure.map(ServiceError::failure),
        took_us: micros(begun.elapsed()),
    }
}

async fn try_to_sleep(fleet: &Fleet, engine: usize, level: SleepLevel, deadline: Deadline) -> Result<(), ServiceError> {
    let member = fleet.member(engine);
    let mut control = deadline.run(member.control.lock()).await?;
    let pause = |from: fn(Standing) -> bool, to: Standing| {
        fleet.change(engine, |seat, _| {
            if from(seat.standing) {
                seat.standing = to;
            }
        });
    };
    pause(Standing::is_usable, Standing::Paused);
    let idle = async {
        tokio::select! {
            () = fleet.idle(engine) => Ok(()),
            error = dies(fleet, engine) => Err(error),
        }
    };
    match deadline.run(idle).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            fleet.lose(engine, Standing::Open, &error.to_string());
            return Err(failed(&error));
        }
        Err(deadline) => {
            // It was asked nothing, and has its samples still.
            pause(|standing| standing == Standing::Paused, Standing::Suspect);
            return Err(deadline);
        }
    }
    let failure = match deadline.run(member.sleep(&mut control, level)).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => failed(&error),
        Err(deadline) => deadline,
    };
    // Nobody knows how far it came. It is looked at like one that was lost; where it cannot be woken now, it is woken then.
    if let Err(error) = member.wake(&mut control).await {
        tracing::warn!(engine = member.name, %error, "not woken after it could not be put to sleep");
    }
    fleet.lose(engine, Standing::Open, &format!("it could not be put to sleep: {failure}"));
    Err(failure)
}

async fn awake(fleet: Arc<Fleet>, engine: usize, deadline: Deadline) -> EngineSleep {
    let (member, begun, target) = (fleet.member(engine), Instant::now(), fleet.target());
    let waking = async {
        let mut control = member.control.lock().await;
        if control.asleep.is_none() {
            // It never slept, or was lost meanwhile: whoever looks after it brings it back.
            return Ok(());
        }
        if control.tainted {
            let plan = Switch { target: Arc::clone(&target), mode: PauseSetting::Wait, clear_cache: true, deadline };
            return switch(&fleet, engine, &mut control, &plan).await.failure.map_or(Ok(()), Err);
        }
        member.wake(&mut control).await.map_err(|error| failed(&error))?;
        let says = member.engine.weights().await.map_err(|error| failed(&error))?;
        if control.has(&target, says.as_deref()) {
            fleet.admit(engine, Standing::Healthy, &target);
        } else {
            // It restarted meanwhile, or was stale before: whoever looks after it gives it the weights.
            fleet.lose(engine, Standing::Open, "it woke with other weights");
        }
        Ok(())
    };
    let failure = match deadline.run(waking).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) | Err(error) => Some(error),
    };
    if let Some(failure) = &failure {
        // Whoever looks after it wakes it.
        fleet.lose(engine, Standing::Open, &failure.to_string());
    }
    member.kick.notify_one();
    told(&member, member.is_asleep(), failure.as_ref(), begun)
}

fn failed(error: &EngineError) -> ServiceError {
    if error.is_missing_route() {
        let message = format!("{error}; vLLM has it with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1");
        return ServiceError::Precondition { reason: "NO_SLEEP", message };
    }
    ServiceError::Unavailable { reason: "ENGINE_FAILED", message: error.to_string() }
}
