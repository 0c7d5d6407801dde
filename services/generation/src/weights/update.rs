//! `UpdateWeights`: what is refused at once, and then every engine at the same time.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_common::deadline::Deadline;
use evenkeel_common::error::ServiceError;
use evenkeel_common::roots::{Roots, check_roots};
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{
    EngineUpdate, EngineUpdateOutcome, UpdateWeightsRequest, UpdateWeightsResponse, WeightsRef, weights_ref,
};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::folder::{FIELD, check_folder};
use super::switch::{Report, Switch, switch};
use super::target::Target;
use crate::fleet::{Fleet, Standing};

/// Changes the weights of a fleet, one change at a time.
#[derive(Clone)]
pub(crate) struct Updater {
    pub(super) fleet: Arc<Fleet>,
    pub(super) turn: Arc<Mutex<()>>,
}

impl Updater {
    pub(crate) fn new(fleet: Arc<Fleet>) -> Self {
        Self { fleet, turn: Arc::default() }
    }

    /// Refuses or does it. What was begun is finished also where the caller goes away: engines must not stay paused.
    pub(crate) async fn update(
        &self,
        request: UpdateWeightsRequest,
        call: Deadline,
    ) -> Result<UpdateWeightsResponse, ServiceError> {
        let settings = &self.fleet.settings.weights;
        let weights = request.weights.ok_or_else(|| FieldError::missing("weights", "a reference to weights"))?;
        let path = path_of(&weights)?.to_owned();
        let mode = settings.pause_mode.or_request(request.pause_mode).ok_or_else(|| {
            FieldError::new(
                "pause_mode",
                request.pause_mode,
                "PAUSE_MODE_ABORT (1), PAUSE_MODE_WAIT (2) or PAUSE_MODE_KEEP (3)",
            )
        })?;
        let deadline = self.until(call, request.deadline_ms);
        let target = Target::of(&weights, &path);
        let clear_cache = request.clear_cache.unwrap_or(settings.clear_cache);
        let updater = self.clone();
        let task = tokio::spawn(async move { updater.run(target, mode, clear_cache, deadline).await });
        task.await.map_err(|error| ServiceError::Internal { message: format!("the update broke off: {error}") })?
    }

    async fn run(
        self,
        target: Target,
        mode: crate::settings::PauseSetting,
        clear_cache: bool,
        deadline: Deadline,
    ) -> Result<UpdateWeightsResponse, ServiceError> {
        let _turn = deadline.run(self.turn.lock()).await?;
        let fleet = &self.fleet;
        let (asked, settings, model) = (target.clone(), fleet.settings.weights.clone(), fleet.model.get().cloned());
        let looking = tokio::task::spawn_blocking(move || {
            let roots = Roots { setting: "weights.roots", folders: &settings.roots };
            check_roots(FIELD, &asked.path, roots, settings.check_folder)?;
            if settings.check_folder { check_folder(&asked, &settings.marker, model.as_ref()) } else { Ok(()) }
        });
        let looked = deadline.run(looking).await?;
        looked.map_err(|error| ServiceError::Internal { message: format!("looking into the folder: {error}") })??;
        fleet.rest(false);
        // From here on nobody samples from the old weights any more, and whoever has the new ones may begin.
        let target = fleet.aim(target);
        let plan = Switch { target: Arc::clone(&target), mode, clear_cache, deadline };
        let engines = each(fleet, |fleet, engine| {
            let plan = plan.clone();
            async move { one(&fleet, engine, &plan).await }
        });
        Ok(UpdateWeightsResponse { version: target.version, engines: engines.await })
    }

    /// When a call over all engines ends.
    pub(super) fn until(&self, call: Deadline, deadline_ms: Option<u64>) -> Deadline {
        call.and_item(Some(deadline_ms.unwrap_or(self.fleet.settings.weights.update_timeout_ms)))
    }
}

/// Does it to every engine at once; what became of each, by their numbers.
pub(super) async fn each<T, F>(fleet: &Arc<Fleet>, one: impl Fn(Arc<Fleet>, usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for engine in fleet.present() {
        let done = one(Arc::clone(fleet), engine);
        tasks.spawn(async move { (engine, done.await) });
    }
    let mut done = tasks.join_all().await;
    done.sort_by_key(|&(engine, _)| engine);
    done.into_iter().map(|(_, of_it)| of_it).collect()
}

fn path_of(weights: &WeightsRef) -> Result<&str, ServiceError> {
    weights.check().map_err(|error| error.within("weights"))?;
    let missing = match &weights.source {
        Some(weights_ref::Source::Path(at)) => return Ok(&at.path),
        Some(weights_ref::Source::Lora(_)) => "an update by a LoRA adapter (weights.lora)",
        Some(weights_ref::Source::Nccl(_)) => "an update by a NCCL broadcast (weights.nccl)",
        Some(weights_ref::Source::Chunks(_)) => "an update by chunks (weights.chunks)",
        None => "an update without a source",
    };
    Err(ServiceError::Unimplemented { what: missing })
}

async fn one(fleet: &Fleet, engine: usize, plan: &Switch) -> EngineUpdate {
    let member = fleet.member(engine);
    let answer = |outcome: EngineUpdateOutcome, report: Report| EngineUpdate {
        engine: member.name.clone(),
        outcome: outcome.into(),
        version: report.version,
        resumed: report.resumed,
        failure: report.failure.as_ref().map(ServiceError::failure),
        paused_us: micros(report.paused),
        load_us: micros(report.load),
    };
    let control = plan.deadline.run(member.control.lock()).await;
    let mut control = match control {
        Ok(control) => control,
        Err(deadline) => {
            fleet.lose(engine, Standing::Stale, "weights not changed: another change took too long");
            return answer(EngineUpdateOutcome::Failed, Report { failure: Some(deadline), ..Report::default() });
        }
    };
    let says = match member.engine.weights().await {
        Ok(says) => says,
        Err(error) => {
            // Nothing was begun. It is looked after like any lost engine, and gets the weights when it is back.
            fleet.lose(engine, Standing::Stale, &error.to_string());
            member.kick.notify_one();
            let failure = ServiceError::Unavailable { reason: "ENGINE_LOST", message: error.to_string() };
            return answer(EngineUpdateOutcome::Failed, Report { failure: Some(failure), ..Report::default() });
        }
    };
    if control.asleep.is_none() && control.has(&plan.target, says.as_deref()) {
        if fleet.standing(engine).0 == Standing::Open {
            member.kick.notify_one();
        } else {
            fleet.admit(engine, Standing::Healthy, &plan.target);
        }
        let report = Report { version: Some(plan.target.version), resumed: true, ..Report::default() };
        return answer(EngineUpdateOutcome::Current, report);
    }
    let report = switch(fleet, engine, &mut control, plan).await;
    let outcome = if report.failure.is_none() { EngineUpdateOutcome::Updated } else { EngineUpdateOutcome::Failed };
    answer(outcome, report)
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
