//! Weight updates over all engines, and putting engines to sleep between them.

mod adapter;
mod apply;
mod by_name;
mod exact;
mod folder;
mod prove;
mod refusal;
mod sleep;
mod steps;
mod tied_head;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_host::arriving;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{
    EngineUpdate, EngineUpdateOutcome, UpdateWeightsRequest, UpdateWeightsResponse, WeightsRef, weights_ref,
};
use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::error::{Reason, ServiceError, micros};
use evenkeel_rpc::roots::{Roots, validate_folder};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::pool::{EnginePool, EngineState, PooledEngine, WeightsVersion};
use crate::settings::PauseSetting;
use folder::check_folder;
use refusal::FIELD;
use steps::UpdateReport;

pub(crate) use by_name::unload_unused;
pub(crate) use steps::WeightUpdate;

/// Updates the weights of a pool and puts its engines to sleep, one call at a time.
#[derive(Clone)]
pub(crate) struct Updater {
    pool: Arc<EnginePool>,
    turn: Arc<Mutex<()>>,
}

impl Updater {
    pub(crate) fn new(pool: Arc<EnginePool>) -> Self {
        Self { pool, turn: Arc::default() }
    }

    /// Validates the request and updates every engine. An update that was begun is finished even if the caller goes
    /// away: engines must not stay paused.
    pub(crate) async fn update(
        &self,
        request: UpdateWeightsRequest,
        call: Deadline,
    ) -> Result<UpdateWeightsResponse, ServiceError> {
        let settings = &self.pool.settings().weights;
        let weights = request.weights.ok_or_else(|| FieldError::missing("weights", "a reference to weights"))?;
        let path = path_of(&weights)?.to_owned();
        let weights = Arc::new(WeightsVersion::new(&weights, &path));
        let mode = settings.pause_mode.or_request(request.pause_mode).ok_or_else(|| {
            FieldError::new(
                "pause_mode",
                request.pause_mode,
                "PAUSE_MODE_ABORT (1), PAUSE_MODE_WAIT (2) or PAUSE_MODE_KEEP (3)",
            )
        })?;
        let deadline = self.deadline(call, request.deadline_ms);
        let clear_cache = request.clear_cache.unwrap_or(settings.clear_cache);
        let update = WeightUpdate { weights, mode, clear_cache, deadline };
        let task = tokio::spawn(self.clone().run(update, path));
        task.await.map_err(|error| ServiceError::Internal { message: format!("the update task failed: {error}") })?
    }

    async fn run(self, mut update: WeightUpdate, path: String) -> Result<UpdateWeightsResponse, ServiceError> {
        let deadline = update.deadline;
        let _turn = deadline.run(self.turn.lock()).await?;
        let pool = &self.pool;
        let weights = Arc::clone(&update.weights);
        let settings = pool.settings().weights.clone();
        let model = pool.model().cloned();
        let limits = pool.adapter_limits();
        let (path, roots_hold) = match pool.agents() {
            None => (path, true),
            // The folder of the request is the learner's: what is read here is the copy of this node.
            Some(agents) => {
                let fetched = async {
                    let here = agents.pull_here(weights.pull_request());
                    // Those of the engines at the same time, while they sample. What fails is tried again, and
                    // reported, with the engine's turn.
                    let there = on_each(pool, |pool, engine| {
                        let weights = Arc::clone(&weights);
                        async move { drop(pool.place(&engine, &weights).await) }
                    });
                    tokio::join!(here, there).0
                };
                (deadline.run(fetched).await??, false)
            }
        };
        update.weights =
            Arc::new(WeightsVersion { path: Some(path.clone()), ..WeightsVersion::clone(&update.weights) });
        let checking = tokio::task::spawn_blocking(move || {
            let roots = if roots_hold { Roots::or_anywhere("weights.roots", &settings.roots) } else { Roots::Anywhere };
            arriving::read_in_place(Path::new(&path), |place| {
                let place = place.to_string_lossy();
                validate_folder(FIELD, &place, roots, settings.check_folder)?;
                if settings.check_folder {
                    check_folder(&place, &weights, &settings.marker, model.as_ref())?;
                }
                adapter::is_in(&place, limits, model.as_ref())
            })
        });
        let checked = deadline.run(checking).await?;
        let is_adapter =
            checked.map_err(|error| ServiceError::Internal { message: format!("checking the folder: {error}") })??;
        update.weights = Arc::new(WeightsVersion { is_adapter, ..WeightsVersion::clone(&update.weights) });
        pool.set_sleeping(false);
        // From here on engines that have the new weights may serve; the old ones only finish the samples of their
        // version.
        pool.set_weights(&update.weights, update.mode == PauseSetting::Wait);
        let version = update.weights.number;
        let engines = on_each(pool, |pool, engine| {
            let update = update.clone();
            async move { update_engine(&pool, &engine, &update).await }
        });
        Ok(UpdateWeightsResponse { version, engines: engines.await })
    }

    /// When a call over all engines ends.
    fn deadline(&self, call: Deadline, deadline_ms: Option<u64>) -> Deadline {
        let default = self.pool.settings().weights.update_timeout;
        call.min(Deadline::after(deadline_ms.map_or(default, Duration::from_millis)))
    }
}

/// Runs an operation on every engine at once; the results are in the order of the engines.
async fn on_each<T, F>(pool: &Arc<EnginePool>, operation: impl Fn(Arc<EnginePool>, Arc<PooledEngine>) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for engine in pool.members() {
        let id = engine.id();
        let running = operation(Arc::clone(pool), engine);
        tasks.spawn(async move { (id, running.await) });
    }
    let mut results = tasks.join_all().await;
    results.sort_by_key(|&(id, _)| id);
    results.into_iter().map(|(_, result)| result).collect()
}

fn path_of(weights: &WeightsRef) -> Result<&str, ServiceError> {
    weights.validate().map_err(|error| error.within("weights"))?;
    let missing = match &weights.source {
        Some(weights_ref::Source::Path(at)) => return Ok(&at.path),
        Some(weights_ref::Source::Lora(_)) => "an update by a LoRA adapter (weights.lora)",
        Some(weights_ref::Source::Nccl(_)) => "an update by a NCCL broadcast (weights.nccl)",
        None => "an update without a source",
    };
    Err(ServiceError::Unimplemented { what: missing })
}

async fn update_engine(pool: &EnginePool, engine: &PooledEngine, update: &WeightUpdate) -> EngineUpdate {
    let (outcome, report) = try_update(pool, engine, update).await;
    EngineUpdate {
        engine: engine.name().to_owned(),
        outcome: outcome.into(),
        version: report.version,
        resumed: report.resumed,
        failure: report.failure.as_ref().map(ServiceError::failure),
        paused_us: micros(report.paused),
        load_us: micros(report.load),
    }
}

async fn try_update(
    pool: &EnginePool,
    engine: &PooledEngine,
    update: &WeightUpdate,
) -> (EngineUpdateOutcome, UpdateReport) {
    let mut control = match update.deadline.run(engine.control().lock()).await {
        Ok(control) => control,
        Err(deadline) => {
            pool.eject(engine, EngineState::Stale, "weights not updated: another update took too long");
            return (EngineUpdateOutcome::Failed, UpdateReport::failed(deadline));
        }
    };
    let reported = match engine.reported(&update.weights).await {
        Ok(reported) => reported,
        Err(error) => {
            // Nothing was begun. The health monitor treats it like any lost engine, and updates it when it is back.
            pool.eject(engine, EngineState::Stale, &error.to_string());
            engine.request_check();
            let failure = ServiceError::Unavailable { reason: Reason::EngineLost, message: error.to_string() };
            return (EngineUpdateOutcome::Failed, UpdateReport::failed(failure));
        }
    };
    // Samples of other weights may be under way beside them, to be taken back.
    let is_beside = engine.adapter_name(&update.weights).is_some()
        && update.mode != PauseSetting::Wait
        && *pool.session(engine).weights() != *update.weights;
    if !control.is_asleep() && !is_beside && control.has(&update.weights, reported.as_deref()) {
        if pool.state(engine).0 == EngineState::CircuitOpen || pool.is_comparison_due(engine) {
            engine.request_check();
        } else {
            pool.admit(engine, EngineState::Healthy, &update.weights);
        }
        return (EngineUpdateOutcome::Current, UpdateReport::current(update.weights.number));
    }
    let report = update.apply(pool, engine, &mut control).await;
    let outcome = if report.failure.is_none() { EngineUpdateOutcome::Updated } else { EngineUpdateOutcome::Failed };
    (outcome, report)
}
