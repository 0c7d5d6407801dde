//! The engine pool: its members, what state each is in, and which of them gets a sample.

mod balancer;
mod batch_probe;
mod breaker;
mod compatibility;
mod engine;
mod engine_slots;
mod engine_state;
mod request;
mod slot;
mod throughput;
mod transitions;
mod weights;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use evenkeel_proto::v1::LogProbabilityMode;
use evenkeel_rpc::error::{Reason, ServiceError};
use tokio::time::Instant;

use crate::agents::Agents;
use crate::engine::{AdapterLimits, AdapterSupport, EngineClient, EngineClientError, EngineInfo};
use crate::model::Model;
use crate::settings::GenerationSettings;
use balancer::Balancer;
use compatibility::Compatibility;
use request::{Assignment, Rejection, Replies};
use slot::PendingSlot;

pub(crate) use breaker::BreakerState;
pub(crate) use engine::{EngineControl, PooledEngine};
pub(crate) use engine_slots::EngineSnapshot;
pub(crate) use engine_state::EngineState;
pub(crate) use request::{EngineId, SlotRequest};
pub(crate) use slot::{EngineSlot, Wanted};
pub(crate) use weights::{Interruption, WeightsVersion, is_own_label, version_number};

/// All engines of the service.
pub(crate) struct EnginePool {
    /// By id. Engines join and leave; an id is never reused.
    engines: RwLock<Vec<Arc<PooledEngine>>>,
    balancer: Mutex<Balancer>,
    compatibility: Compatibility,
    /// Engines are to stay asleep.
    sleeping: AtomicBool,
    /// Who fetches weights, where not all see one folder.
    agents: Option<Agents>,
    settings: Arc<GenerationSettings>,
}

impl EnginePool {
    pub(crate) fn new(settings: GenerationSettings, agents: Option<Agents>) -> Self {
        let settings = Arc::new(settings);
        Self {
            engines: RwLock::default(),
            balancer: Mutex::new(Balancer::new(WeightsVersion::initial(None), Arc::clone(&settings))),
            compatibility: Compatibility::new(&settings),
            sleeping: AtomicBool::new(false),
            agents,
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
        self.update(engine, |slots, _| slots.drain());
    }

    /// Takes a draining engine back; it is probed like one that was ejected.
    pub(crate) fn undrain(&self, engine: &PooledEngine) {
        engine.set_comparison_due(true);
        self.update(engine, |slots, _| slots.undrain());
        engine.request_check();
    }

    /// Whether an engine is draining and has nothing in flight.
    pub(crate) fn is_drained(&self, engine: &PooledEngine) -> bool {
        self.balancer().slots(engine.id()).is_drained()
    }

    /// The engines that are not draining.
    pub(crate) fn members(&self) -> Vec<Arc<PooledEngine>> {
        let members = self.snapshot().into_iter().filter(|(_, snapshot)| snapshot.state != EngineState::Draining);
        members.map(|(engine, _)| engine).collect()
    }

    /// Every engine that is not drained, with its snapshot.
    pub(crate) fn snapshot(&self) -> Vec<(Arc<PooledEngine>, EngineSnapshot)> {
        // Locked until the snapshots were read, so that both are of the same moment.
        let engines = self.engines.read().unwrap_or_else(PoisonError::into_inner);
        let snapshots = self.balancer().snapshots(Instant::now());
        let drained = |snapshot: &EngineSnapshot| snapshot.state == EngineState::Draining && snapshot.in_flight == 0;
        engines.iter().cloned().zip(snapshots).filter(|(_, snapshot)| !drained(snapshot)).collect()
    }

    /// The engine of that name.
    pub(crate) fn named(&self, name: &str) -> Option<EngineId> {
        let engines = self.engines.read().unwrap_or_else(PoisonError::into_inner);
        engines.iter().rev().find(|engine| engine.name() == name).map(|engine| engine.id())
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

    /// Who fetches weights; `None` where all see one folder.
    pub(crate) fn agents(&self) -> Option<&Agents> {
        self.agents.as_ref()
    }

    /// Makes sure that an engine can read weights.
    ///
    /// # Errors
    /// Any error of the engine's agent.
    pub(crate) async fn place(&self, engine: &PooledEngine, weights: &WeightsVersion) -> Result<(), ServiceError> {
        let (Some(agents), true) = (&self.agents, weights.is_loadable()) else { return Ok(()) };
        let path = agents.pull_for(engine.client().endpoint(), weights.pull_request()).await?;
        engine.set_place(weights, path);
        Ok(())
    }

    /// Probes an engine unless that was done before.
    ///
    /// # Errors
    /// [`EngineClientError::Incompatible`] if its samples would bias training.
    pub(crate) async fn probe(&self, engine: &PooledEngine) -> Result<(), EngineClientError> {
        self.compatibility.probe(engine).await
    }

    /// Whether an engine has to pass [`Self::compare`] before it may serve.
    pub(crate) fn is_comparison_due(&self, engine: &PooledEngine) -> bool {
        self.compatibility.is_comparison_due(engine)
    }

    /// Compares the samples of an engine that comes back alone and in a batch, where that is asked for. It must be
    /// awake.
    ///
    /// # Errors
    /// [`EngineClientError::Incompatible`] with the first difference; whatever a sample fails with.
    pub(crate) async fn compare(&self, engine: &PooledEngine) -> Result<(), EngineClientError> {
        self.compatibility.compare(engine).await
    }

    /// The model that the engines serve. `None` before the first probe.
    pub(crate) fn model(&self) -> Option<&Model> {
        self.compatibility.model()
    }

    /// Which distribution log-probabilities refer to.
    pub(crate) fn log_probability_mode(&self) -> LogProbabilityMode {
        self.compatibility.log_probabilities()
    }

    /// The longest sequence that every engine takes.
    pub(crate) fn context_tokens(&self) -> u32 {
        let engines = self.engines.read().unwrap_or_else(PoisonError::into_inner);
        let balancer = self.balancer();
        let shortest = |include_drained: bool| {
            let counted = |engine: &&Arc<PooledEngine>| include_drained || !balancer.slots(engine.id()).is_drained();
            engines.iter().filter(counted).filter_map(|engine| Some(engine.info()?.context_tokens)).min()
        };
        // While new engines are being probed, that of their predecessors.
        shortest(false).or_else(|| shortest(true)).unwrap_or(0)
    }

    /// The lowest temperature above 0 that every engine samples at.
    pub(crate) fn min_temperature(&self) -> f32 {
        let engines = self.engines.read().unwrap_or_else(PoisonError::into_inner);
        engines.iter().filter_map(|engine| Some(engine.info()?.min_temperature)).fold(0.0, f32::max)
    }

    /// Whether every engine that was probed reloads the head of a tied model from a folder without a tensor for it.
    pub(crate) fn takes_tied_head(&self) -> bool {
        self.all_probed(|info| info.takes_tied_head)
    }

    /// What an engine that was probed lacks to compute LoRA adapters beside its model. `None`: every one computes them,
    /// and there is one.
    pub(crate) fn missing_for_adapters(&self) -> Option<&'static str> {
        let engines = self.engines.read().unwrap_or_else(PoisonError::into_inner);
        let mut probed = engines.iter().filter_map(|engine| engine.info()).peekable();
        if probed.peek().is_none() {
            return Some("an answer");
        }
        probed.find_map(|info| match info.adapters {
            AdapterSupport::Missing(what) => Some(what),
            AdapterSupport::Reloaded | AdapterSupport::Named(_) => None,
        })
    }

    /// The least that an engine which takes adapters by name was started for. `None` without one.
    pub(crate) fn adapter_limits(&self) -> Option<AdapterLimits> {
        let engines = self.engines.read().unwrap_or_else(PoisonError::into_inner);
        let limits = engines.iter().filter_map(|engine| match engine.info()?.adapters {
            AdapterSupport::Named(limits) => Some(limits),
            AdapterSupport::Missing(_) | AdapterSupport::Reloaded => None,
        });
        limits.reduce(|a, b| AdapterLimits {
            live: a.live.min(b.live),
            scores_head: a.scores_head && b.scores_head,
            ..if a.rank <= b.rank { a } else { b }
        })
    }

    /// Whether something holds for every engine that was probed, and there is one.
    fn all_probed(&self, holds: impl Fn(&EngineInfo) -> bool) -> bool {
        let engines = self.engines.read().unwrap_or_else(PoisonError::into_inner);
        let mut probed = engines.iter().filter_map(|engine| engine.info()).peekable();
        probed.peek().is_some() && probed.all(holds)
    }

    /// The weights that samples are drawn from.
    pub(crate) fn weights(&self) -> Arc<WeightsVersion> {
        Arc::clone(self.balancer().weights())
    }

    /// Makes other weights current. No engine gets samples of them until it is admitted with them; `finish`: until then
    /// engines take samples of the version that they have.
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
                reason: Reason::VersionUnavailable,
                message: format!("policy_version is {requested}, allowed: {current}, which the engines have"),
            },
            Rejection::NoEngine => {
                let states = self.snapshot().into_iter().map(|(engine, snapshot)| {
                    let error = snapshot.last_error.map(|error| format!(": {error}")).unwrap_or_default();
                    format!("{} is {}{error}", engine.name(), snapshot.state.label())
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

    /// Counts an unanswered sample that asks for a version.
    pub(crate) fn want(self: &Arc<Self>, version: u64) -> Wanted {
        Wanted::new(Arc::clone(self), version)
    }

    fn release(&self, assignment: &Assignment) {
        let replies = self.release_unsent(assignment);
        self.deliver(replies);
    }

    fn release_unsent(&self, assignment: &Assignment) -> Replies {
        let was_last = assignment.session.end_sample();
        let mut balancer = self.balancer();
        let is_earlier = !Arc::ptr_eq(balancer.slots(assignment.engine).session(), &assignment.session);
        let replies = balancer.release(assignment.engine, assignment.tokens);
        drop(balancer);
        if was_last && is_earlier && assignment.session.weights().is_adapter {
            // It may be unloaded.
            self.engine(assignment.engine).request_check();
        }
        replies
    }

    /// Sends replies, and releases assignments that nobody received, which may answer other requests in turn.
    fn deliver(&self, replies: Replies) {
        let mut unreceived = replies.send();
        while let Some(assignment) = unreceived.pop() {
            unreceived.extend(self.release_unsent(&assignment).send());
        }
    }

    fn balancer(&self) -> MutexGuard<'_, Balancer> {
        // Nothing that is done under the lock leaves the balancer half changed.
        self.balancer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
