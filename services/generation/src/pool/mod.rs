//! The engine pool: its members, what state each is in, and which of them gets a sample.

mod backend;
mod balancer;
mod breaker;
mod compatibility;
mod engine;
mod slot;
mod throughput;
mod weights;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use evenkeel_proto::v1::LogProbabilityMode;
use evenkeel_rpc::error::{Reason, ServiceError};
use tokio::time::Instant;

use crate::engine::{EngineClient, EngineError, EngineMetrics};
use crate::model::Model;
use crate::settings::GenerationSettings;
use backend::Backend;
use balancer::{Assignment, Balancer, Rejection, Replies};
use compatibility::Compatibility;
use slot::PendingSlot;

pub(crate) use backend::{BackendStatus, EngineState};
pub(crate) use balancer::{EngineId, SlotRequest};
pub(crate) use engine::{EngineControl, PooledEngine};
pub(crate) use slot::EngineSlot;
pub(crate) use weights::{Interruption, Session, WeightsVersion, version_number};

/// All engines of the service.
pub(crate) struct EnginePool {
    /// By id. Engines join and leave; an id is never reused.
    engines: RwLock<Vec<Arc<PooledEngine>>>,
    balancer: Mutex<Balancer>,
    compatibility: Compatibility,
    /// Engines are to stay asleep.
    sleeping: AtomicBool,
    settings: Arc<GenerationSettings>,
}

/// Membership.
impl EnginePool {
    /// Without engines yet.
    pub(crate) fn new(settings: GenerationSettings) -> Self {
        let settings = Arc::new(settings);
        Self {
            engines: RwLock::default(),
            balancer: Mutex::new(Balancer::new(WeightsVersion::initial(None), Arc::clone(&settings))),
            compatibility: Compatibility::new(&settings),
            sleeping: AtomicBool::new(false),
            settings,
        }
    }

    /// Adds an engine. It gets no sample before it is admitted.
    pub(crate) fn join(&self, client: Box<dyn EngineClient>) -> Arc<PooledEngine> {
        let mut engines = self.engines.write().unwrap_or_else(PoisonError::into_inner);
        let engine = Arc::new(PooledEngine::new(self.balancer().add(Instant::now()), client));
        engines.push(Arc::clone(&engine));
        engine
    }

    /// Lets an engine finish what it has and gives it nothing more.
    pub(crate) fn drain(&self, engine: &PooledEngine) {
        self.update(engine, |backend, _| backend.drain());
    }

    /// Takes a draining engine back; it is probed like one that was ejected.
    pub(crate) fn undrain(&self, engine: &PooledEngine) {
        self.update(engine, |backend, _| backend.undrain());
        engine.request_check();
    }

    /// Whether an engine is draining and has nothing in flight.
    pub(crate) fn is_drained(&self, engine: &PooledEngine) -> bool {
        self.balancer().backend(engine.id()).is_drained()
    }

    /// The engines that are not draining.
    pub(crate) fn members(&self) -> Vec<Arc<PooledEngine>> {
        let members = self.snapshot().into_iter().filter(|(_, status)| status.state != EngineState::Draining);
        members.map(|(engine, _)| engine).collect()
    }

    /// Every engine that is not drained, with its status.
    pub(crate) fn snapshot(&self) -> Vec<(Arc<PooledEngine>, BackendStatus)> {
        // Locked until the statuses were read, so that both are of the same moment.
        let engines = self.engines.read().unwrap_or_else(PoisonError::into_inner);
        let statuses = self.balancer().statuses(Instant::now());
        let drained = |status: &BackendStatus| status.state == EngineState::Draining && status.in_flight == 0;
        engines.iter().cloned().zip(statuses).filter(|(_, status)| !drained(status)).collect()
    }

    pub(crate) fn engine(&self, id: EngineId) -> Arc<PooledEngine> {
        let engines = self.engines.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&engines[id])
    }
}

/// What all engines have in common.
impl EnginePool {
    pub(crate) fn settings(&self) -> &GenerationSettings {
        &self.settings
    }

    /// Probes an engine unless that was done before.
    ///
    /// # Errors
    /// [`EngineError::Incompatible`] if its samples would bias training.
    pub(crate) async fn probe(&self, engine: &PooledEngine) -> Result<(), EngineError> {
        self.compatibility.probe(engine).await
    }

    /// The model that the engines serve. `None` before the first probe.
    pub(crate) fn model(&self) -> Option<&Model> {
        self.compatibility.model()
    }

    /// What log-probabilities are taken of.
    pub(crate) fn log_probability_mode(&self) -> LogProbabilityMode {
        self.compatibility.log_probabilities()
    }

    /// The longest sequence that every engine takes.
    pub(crate) fn context_tokens(&self) -> u32 {
        let (engines, balancer) = (self.engines.read().unwrap_or_else(PoisonError::into_inner), self.balancer());
        let shortest = |include_drained: bool| {
            let counted = |engine: &&Arc<PooledEngine>| include_drained || !balancer.backend(engine.id()).is_drained();
            engines.iter().filter(counted).filter_map(|engine| Some(engine.info()?.context_tokens)).min()
        };
        // While new engines are being probed, that of their predecessors.
        shortest(false).or_else(|| shortest(true)).unwrap_or(0)
    }

    /// The weights that samples are drawn from.
    pub(crate) fn weights(&self) -> Arc<WeightsVersion> {
        Arc::clone(self.balancer().weights())
    }

    /// Makes other weights current. No engine gets samples of them until it is admitted with them; `finish`: until then engines take
    /// samples that ask for the version that they have.
    pub(crate) fn set_weights(&self, weights: &Arc<WeightsVersion>, finish: bool) {
        let replies = self.balancer().set_weights(Arc::clone(weights), finish, Instant::now());
        self.deliver(replies);
    }

    /// Whether engines are to stay asleep from now on.
    pub(crate) fn set_sleeping(&self, sleeping: bool) {
        self.sleeping.store(sleeping, Ordering::Release);
    }

    pub(crate) fn is_sleeping(&self) -> bool {
        self.sleeping.load(Ordering::Acquire)
    }
}

/// The state of an engine.
impl EnginePool {
    /// Its state, and the weights that are current at the same moment.
    pub(crate) fn state(&self, engine: &PooledEngine) -> (EngineState, Arc<WeightsVersion>) {
        let balancer = self.balancer();
        (balancer.backend(engine.id()).state(), Arc::clone(balancer.weights()))
    }

    pub(crate) fn session(&self, engine: &PooledEngine) -> Arc<Session> {
        Arc::clone(self.balancer().backend(engine.id()).session())
    }

    /// Makes sure that what an engine has sent since its session began came from the session's weights. One that has others gets no samples
    /// until it is updated.
    ///
    /// # Errors
    /// Other weights; an engine that was lost meanwhile, or cannot be asked.
    pub(crate) async fn verify_weights(&self, engine: &PooledEngine, session: &Session) -> Result<(), EngineError> {
        let verified = engine.verify_weights(session.weights()).await;
        if let Err(error @ EngineError::WrongWeights { .. }) = &verified {
            self.eject(engine, EngineState::Stale, &error.to_string());
            engine.request_check();
        }
        verified?;
        if session.is_interrupted() {
            return Err(EngineError::Interrupted { reason: "its engine was lost meanwhile".to_owned() });
        }
        Ok(())
    }

    /// Gives samples to an engine that serves these weights. Without effect if others became current, or if it is draining.
    pub(crate) fn admit(&self, engine: &PooledEngine, state: EngineState, serves: &WeightsVersion) {
        self.update(engine, |backend, current| {
            if **current == *serves {
                backend.admit(state, current);
            }
        });
    }

    /// Gives an engine nothing more and takes back what it has.
    pub(crate) fn eject(&self, engine: &PooledEngine, state: EngineState, reason: &str) {
        self.update(engine, |backend, _| backend.eject(state, reason));
    }

    /// Gives a serving engine nothing more for now.
    pub(crate) fn pause(&self, engine: &PooledEngine) {
        self.update(engine, |backend, _| backend.pause());
    }

    /// Ends a pause in which nothing was changed.
    pub(crate) fn unpause(&self, engine: &PooledEngine) {
        self.update(engine, |backend, _| backend.unpause());
    }

    /// Notes the version that an engine reports.
    pub(crate) fn set_reported_version(&self, engine: &PooledEngine, version: Option<u64>) {
        self.update(engine, |backend, _| backend.set_reported_version(version));
    }

    /// Notes an engine's metrics, which bound how many samples it gets.
    pub(crate) fn set_metrics(&self, engine: &PooledEngine, metrics: Option<EngineMetrics>) {
        let max_waiting = self.settings.engine.max_waiting.into();
        self.update(engine, |backend, _| backend.set_metrics(metrics, max_waiting));
    }

    /// Whether an engine's circuit breaker is tripped, and if so, whether it is still backing off.
    pub(crate) fn breaker(&self, engine: &PooledEngine) -> (bool, bool) {
        let balancer = self.balancer();
        let breaker = balancer.backend(engine.id()).breaker();
        (breaker.is_tripped(), breaker.is_backing_off(Instant::now()))
    }

    /// Waits until an engine has no sample in flight.
    pub(crate) async fn until_idle(&self, engine: &PooledEngine) {
        let released = self.balancer().backend(engine.id()).released();
        loop {
            let release = released.notified();
            if self.balancer().backend(engine.id()).is_idle() {
                return;
            }
            release.await;
        }
    }

    /// Waits until nothing is left of the weights that an engine has, neither in flight nor waiting. It gets nothing more of them then.
    pub(crate) async fn until_finished(&self, engine: &PooledEngine) {
        let released = self.balancer().backend(engine.id()).released();
        loop {
            let release = released.notified();
            if self.balancer().finish(engine.id()) {
                return;
            }
            release.await;
        }
    }

    fn record_success(&self, engine: &PooledEngine, tokens: usize) {
        self.update(engine, |backend, _| backend.record_success(tokens, Instant::now()));
    }

    fn record_failure(&self, engine: &PooledEngine, error: &EngineError) {
        metrics::counter!(
            "evenkeel_engine_failures_total", "engine" => engine.name().to_owned(), "kind" => error.kind()
        )
        .increment(1);
        self.update(engine, |backend, _| backend.record_failure(error, Instant::now()));
        tracing::debug!(engine = engine.name(), %error, "sample failed");
        engine.request_check();
    }

    fn update(&self, engine: &PooledEngine, change: impl FnOnce(&mut Backend, &Arc<WeightsVersion>)) {
        let replies = self.balancer().update(engine.id(), Instant::now(), change);
        self.deliver(replies);
    }
}

/// Slots for samples.
impl EnginePool {
    /// An engine for a sample, as soon as one has capacity.
    pub(crate) async fn slot(self: &Arc<Self>, request: SlotRequest) -> Result<EngineSlot, ServiceError> {
        let acquired = self.balancer().acquire(request, Instant::now());
        match acquired {
            Ok(assignment) => Ok(EngineSlot::new(Arc::clone(self), assignment)),
            Err(reply) => PendingSlot::new(self, reply).granted().await,
        }
    }

    /// Samples that wait for an engine with room.
    pub(crate) fn waiting(&self) -> usize {
        self.balancer().waiting()
    }

    /// Rejects requests in the queue once there has been no engine for too long.
    pub(crate) fn expire(&self) {
        let replies = self.balancer().expire(Instant::now());
        self.deliver(replies);
    }

    /// Why there is no engine. `None` if there is one.
    pub(crate) fn unavailability(&self) -> Option<ServiceError> {
        if self.balancer().has_no_engine() { Some(self.explain(&Rejection::NoEngine)) } else { None }
    }

    fn explain(&self, rejection: &Rejection) -> ServiceError {
        match rejection {
            Rejection::Version { requested, current } => ServiceError::Precondition {
                reason: Reason::VersionNotThere,
                message: format!("policy_version is {requested}, allowed: {current}, which the engines have"),
            },
            Rejection::NoEngine => {
                let states = self.snapshot().into_iter().map(|(engine, status)| {
                    format!("{} is {:?}: {}", engine.name(), status.state, status.last_error).to_lowercase()
                });
                let states = states.collect::<Vec<_>>().join("; ");
                let states = if states.is_empty() { "the pool is empty".to_owned() } else { states };
                ServiceError::Unavailable {
                    reason: Reason::NoEngine,
                    message: format!("no engine can sample: {states}"),
                }
            }
        }
    }

    fn release(&self, assignment: &Assignment) {
        let replies = self.balancer().release(assignment.engine, assignment.tokens);
        self.deliver(replies);
    }

    /// Sends replies, and releases assignments that nobody received, which may answer other requests in turn.
    fn deliver(&self, replies: Replies) {
        let mut unreceived = replies.send();
        while let Some(assignment) = unreceived.pop() {
            let replies = self.balancer().release(assignment.engine, assignment.tokens);
            unreceived.extend(replies.send());
        }
    }

    fn balancer(&self) -> MutexGuard<'_, Balancer> {
        // Nothing that is done under the lock leaves the balancer half changed.
        self.balancer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
