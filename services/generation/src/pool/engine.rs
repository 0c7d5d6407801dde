//! One engine of the pool: its client, what is known about it, and who may change it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use evenkeel_proto::v1::SleepLevel;
use tokio::sync::{Mutex, Notify};

use super::request::EngineId;
use super::weights::WeightsVersion;
use crate::engine::{
    AdapterLimits, AdapterSupport, EngineClient, EngineClientError, EngineInfo, NamedAdapter, WakeTarget,
};

/// An engine with its client.
pub(crate) struct PooledEngine {
    id: EngineId,
    name: String,
    client: Box<dyn EngineClient>,
    /// Set by its first successful probe.
    info: OnceLock<EngineInfo>,
    /// Whether the engine was lost since its samples were compared: it may have come back as another process.
    comparison_due: AtomicBool,
    control: Mutex<EngineControl>,
    check_requested: Notify,
    verified: VerifiedConnections,
    /// Copy of what the control says, for readers that do not hold it.
    asleep: AtomicBool,
    /// Names of adapters that this service has loaded. What was loaded under a name before it came is not known.
    loaded: std::sync::Mutex<BTreeSet<String>>,
    /// Which weights its agent has fetched last, and where it reads them.
    place: std::sync::Mutex<Option<(Arc<str>, String)>>,
}

impl PooledEngine {
    pub(super) fn new(id: EngineId, client: Box<dyn EngineClient>) -> Self {
        let endpoint = client.endpoint();
        let name = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest).to_owned();
        Self {
            id,
            name,
            client,
            info: OnceLock::new(),
            comparison_due: AtomicBool::new(false),
            control: Mutex::default(),
            check_requested: Notify::new(),
            verified: VerifiedConnections::default(),
            asleep: AtomicBool::new(false),
            loaded: std::sync::Mutex::default(),
            place: std::sync::Mutex::default(),
        }
    }

    pub(crate) fn id(&self) -> EngineId {
        self.id
    }

    /// Host and port: unique in the pool.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn client(&self) -> &dyn EngineClient {
        &*self.client
    }

    /// What its probe found. `None` before its first successful probe.
    pub(crate) fn info(&self) -> Option<&EngineInfo> {
        self.info.get()
    }

    /// How it computes, by the name that its probe found; empty if it named nothing.
    pub(crate) fn arithmetic(&self) -> &str {
        self.info().map_or("", |info| &info.arithmetic)
    }

    pub(super) fn set_info(&self, info: EngineInfo) {
        // The caller holds the control, so it is not set yet.
        let _ = self.info.set(info);
    }

    /// Whether its samples have to be compared again.
    pub(super) fn is_comparison_due(&self) -> bool {
        self.comparison_due.load(Ordering::Acquire)
    }

    pub(super) fn set_comparison_due(&self, is_due: bool) {
        self.comparison_due.store(is_due, Ordering::Release);
    }

    /// Limits of adapters that it was started with, if it takes adapters by name.
    pub(crate) fn names_adapters(&self) -> Option<AdapterLimits> {
        match self.info()?.adapters {
            AdapterSupport::Named(limits) => Some(limits),
            AdapterSupport::Missing(_) | AdapterSupport::Reloaded => None,
        }
    }

    /// The name under which requests of these weights reach their adapter; `None`: they are what it has in place of its
    /// model's.
    pub(crate) fn adapter_name<'a>(&self, weights: &'a WeightsVersion) -> Option<&'a str> {
        weights.label.as_deref().filter(|_| weights.is_adapter && self.names_adapters().is_some())
    }

    /// What it says that it serves where these weights are wanted: their name, if it has their adapter from their
    /// folder; else the label of its weights. `None` if it has no labels.
    pub(crate) async fn reported(&self, weights: &WeightsVersion) -> Result<Option<String>, EngineClientError> {
        let Some(name) = self.adapter_name(weights) else { return self.client.weights_label().await };
        let adapters = self.client.adapters().await?;
        let is_there = |path: &str| adapters.iter().any(|adapter| adapter.name == name && adapter.path == path);
        let is_known = self.loaded.lock().unwrap_or_else(PoisonError::into_inner).contains(name);
        Ok(Some(if is_known && self.path_of(weights).is_some_and(|path| is_there(&path)) {
            name.to_owned()
        } else {
            "its model alone".to_owned()
        }))
    }

    /// Notes where its agent has put weights.
    pub(super) fn set_place(&self, weights: &WeightsVersion, path: String) {
        let label = weights.label.clone();
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = label.map(|label| (label, path));
    }

    /// The folder from which it loads weights. `None` for those that cannot be loaded again.
    pub(crate) fn path_of(&self, weights: &WeightsVersion) -> Option<String> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let own = place.as_ref().filter(|(label, _)| Some(label) == weights.label.as_ref());
        own.map(|(_, path)| path.clone()).or_else(|| weights.path.clone())
    }

    /// Loads an adapter under a name, in place of what it may have had there.
    pub(crate) async fn load_adapter(
        &self,
        name: &str,
        path: &str,
        found: &[NamedAdapter],
    ) -> Result<(), EngineClientError> {
        if found.iter().any(|adapter| adapter.name == name) {
            self.unload_adapter(name).await?;
        }
        self.client.load_adapter(name, path).await?;
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        Ok(())
    }

    /// Unloads an adapter that nothing samples from.
    pub(crate) async fn unload_adapter(&self, name: &str) -> Result<(), EngineClientError> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.client.unload_adapter(name).await
    }

    /// The lock for examining the engine or changing its weights.
    pub(crate) fn control(&self) -> &Mutex<EngineControl> {
        &self.control
    }

    /// Makes the health monitor check it now.
    pub(crate) fn request_check(&self) {
        self.check_requested.notify_one();
    }

    /// Waits for [`Self::request_check`].
    pub(crate) async fn check_requested(&self) {
        self.check_requested.notified().await;
    }

    /// Wakes it if it sleeps.
    pub(crate) async fn wake(&self, control: &mut EngineControl) -> Result<(), EngineClientError> {
        if let Some(target) = control.asleep {
            self.client.wake(target).await?;
            control.asleep = None;
            self.asleep.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Gives a sleeping engine the memory for its weights. That for its cache has to wait until they are loaded.
    pub(crate) async fn wake_for_load(&self, control: &mut EngineControl) -> Result<(), EngineClientError> {
        self.client.wake(WakeTarget::Weights).await?;
        control.asleep = Some(WakeTarget::Cache);
        Ok(())
    }

    /// Puts it to sleep. It must have no sample in flight. `weights`: what it has then. An adapter by name is loaded
    /// again when it wakes: whether it outlasts a sleep is the server's secret.
    pub(crate) async fn sleep(
        &self,
        control: &mut EngineControl,
        level: SleepLevel,
        weights: &WeightsVersion,
    ) -> Result<(), EngineClientError> {
        let before = (control.asleep, control.weights_uncertain);
        // Noted first: a caller that stops waiting cannot know how far the engine got. It has to be woken in any case,
        // and whatever it reports, its weights may be gone.
        control.asleep = Some(WakeTarget::All);
        control.weights_uncertain |= level == SleepLevel::Discard || self.adapter_name(weights).is_some();
        let result = self.client.sleep(level).await;
        if result.as_ref().is_err_and(EngineClientError::is_missing_route) {
            (control.asleep, control.weights_uncertain) = before;
        }
        self.asleep.store(control.is_asleep(), Ordering::Release);
        result
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Acquire)
    }

    /// Makes sure that whatever came over its connections so far was sampled from `weights`.
    ///
    /// An engine that restarts serves its initial weights again without saying so, but it cannot be reached over a
    /// connection made before. So its weights are queried after every new connection. Connections are pooled: this
    /// costs next to nothing.
    pub(super) async fn verify_weights(&self, weights: &WeightsVersion) -> Result<(), EngineClientError> {
        if self.is_verified() {
            return Ok(());
        }
        let _turn = self.verified.verifying.lock().await;
        let connections = self.client.connections();
        if self.verified.count.load(Ordering::Acquire) < connections {
            let reported = self.reported(weights).await?;
            // An engine without labels was trusted when it loaded its weights.
            if reported.is_some() && !weights.matches(reported.as_deref()) {
                return Err(weights.mismatch(reported));
            }
            self.mark_verified(connections);
        }
        Ok(())
    }

    /// Whether the weights behind every connection were verified.
    pub(crate) fn is_verified(&self) -> bool {
        self.verified.count.load(Ordering::Acquire) >= self.client.connections()
    }

    /// The engine reported the right weights when it had this many connections.
    pub(crate) fn mark_verified(&self, connections: u64) {
        self.verified.count.fetch_max(connections, Ordering::AcqRel);
    }
}

/// Up to which connection the engine's weights were verified.
#[derive(Debug, Default)]
struct VerifiedConnections {
    count: AtomicU64,
    verifying: Mutex<()>,
}

/// What is remembered about an engine's weights and sleep between two examinations.
#[derive(Debug, Default)]
pub(crate) struct EngineControl {
    /// The weights that it loaded last and has not been lost with since: all there is to know about an engine without
    /// labels.
    applied: Option<Arc<WeightsVersion>>,
    /// A load or a sleep was begun and not finished: whatever the engine reports, its weights may be half changed or
    /// gone.
    weights_uncertain: bool,
    /// The findings of its probe were considered.
    probe_considered: bool,
    /// Memory that the engine has to take back before it can sample.
    asleep: Option<WakeTarget>,
}

impl EngineControl {
    /// Whether an engine that reports this label serves these weights.
    pub(crate) fn has(&self, weights: &WeightsVersion, reported: Option<&str>) -> bool {
        let applied = || reported.is_none() && self.applied.as_deref() == Some(weights);
        !self.weights_uncertain && (weights.matches(reported) || applied())
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.is_some()
    }

    pub(crate) fn is_uncertain(&self) -> bool {
        self.weights_uncertain
    }

    /// Takes in what the first probe found: an engine that was paused or asleep may have half changed weights.
    pub(crate) fn consider_probe(&mut self, found_paused: bool) {
        if !self.probe_considered {
            self.weights_uncertain |= found_paused;
        }
        self.probe_considered = true;
    }

    pub(crate) fn begin_load(&mut self) {
        self.weights_uncertain = true;
    }

    pub(crate) fn finish_load(&mut self, weights: &Arc<WeightsVersion>) {
        self.applied = Some(Arc::clone(weights));
        (self.weights_uncertain, self.probe_considered) = (false, true);
    }

    /// The engine failed: without labels it is unknown which weights it comes back with.
    pub(crate) fn forget_weights(&mut self) {
        self.applied = None;
    }
}
