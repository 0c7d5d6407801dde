//! The runs of one server: found, listed, and stopped with it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_proto::v1::Run as RunMessage;
use evenkeel_rpc::error::ServiceError;
use evenkeel_rpc::server::{Drain, ServerInfo};
use evenkeel_run::{RUN_FILE, is_run_name};
use tokio::sync::Semaphore;

use super::OrchestratorSettings;
use super::registry::{Entry, Registry, Starting, service_error, stored};
use crate::page::PageServer;
use crate::recipe::RecipeReader;

/// Name of the server.
pub(super) const NAME: &str = "orchestrator";

/// Start requests that are processed at once: one that loads, and others that are refused meanwhile.
const MAX_START_REQUESTS: usize = 4;

/// Serves runs over a folder of run directories. One run is active at a time, because a learner trains one. Clones
/// share the runs.
#[derive(Clone)]
pub struct OrchestratorService {
    shared: Arc<ServerState>,
}

struct ServerState {
    settings: OrchestratorSettings,
    reader: Arc<dyn RecipeReader>,
    drain: Drain,
    registry: Mutex<Registry>,
    /// Where runs are watched.
    page: OnceLock<PageServer>,
    /// Start requests that are being processed.
    start_permits: Arc<Semaphore>,
    info: ServerInfo,
}

impl OrchestratorService {
    /// `drain` is the server's: when it begins, the active run is stopped after its step.
    pub fn new(settings: OrchestratorSettings, reader: Arc<dyn RecipeReader>, drain: Drain) -> Self {
        let shared = ServerState {
            settings,
            reader,
            info: ServerInfo::new(NAME, drain.clone()),
            drain,
            registry: Mutex::default(),
            page: OnceLock::new(),
            start_permits: Arc::new(Semaphore::new(MAX_START_REQUESTS)),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(super) fn settings(&self) -> &OrchestratorSettings {
        &self.shared.settings
    }

    /// What knows the sections of recipes that are not the orchestrator's own.
    pub(super) fn reader(&self) -> &dyn RecipeReader {
        &*self.shared.reader
    }

    pub(super) fn drain(&self) -> &Drain {
        &self.shared.drain
    }

    pub(super) fn info(&self) -> &ServerInfo {
        &self.shared.info
    }

    /// Where runs are watched.
    pub(super) fn page(&self) -> Option<&PageServer> {
        self.shared.page.get()
    }

    /// Start requests that may be processed besides those that are.
    pub(super) fn start_permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.shared.start_permits)
    }

    /// Shows the runs that it starts from now on; a second page is dropped.
    pub(super) fn show_on(&self, page: PageServer) {
        let _ = self.shared.page.set(page);
    }

    /// Waits until no run is active: for servers, before their process ends.
    pub async fn wait_until_idle(&self) {
        while let Some(entry) = self.active() {
            entry.wait_for_end().await;
        }
    }

    /// A server that drains stops its run after the step.
    pub(super) fn stop_with_the_server(&self, entry: Arc<Entry>) {
        let drain = self.shared.drain.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = drain.draining() => entry.stop_after_step(),
                () = entry.wait_for_end() => {}
            }
        });
    }

    pub(super) fn active(&self) -> Option<Arc<Entry>> {
        self.registry().active()
    }

    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.shared.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, run_id: &str) -> Result<Arc<Entry>, ServiceError> {
        self.registry().get(run_id).ok_or_else(|| ServiceError::NotFound { what: format!("run `{run_id}`") })
    }

    pub(super) fn starting(&self, run_id: &str) -> Option<Starting> {
        self.registry().starting().filter(|starting| starting.run_id == run_id)
    }

    pub(super) fn message_of(&self, run_id: &str) -> Result<RunMessage, ServiceError> {
        if let Some(starting) = self.starting(run_id) {
            return Ok(starting.message());
        }
        match self.find(run_id) {
            Ok(entry) => Ok(entry.message()),
            Err(missing) if is_run_name(run_id) => {
                stored(&self.shared.settings.runs.join(run_id)).map_err(service_error)?.ok_or(missing)
            }
            Err(missing) => Err(missing),
        }
    }

    /// All runs, the newest first.
    pub(super) fn list(&self) -> Vec<RunMessage> {
        let (entries, starting) = {
            let registry = self.registry();
            (registry.all(), registry.starting())
        };
        let mut runs: Vec<(SystemTime, RunMessage)> = Vec::new();
        let is_starting = |entry: &Arc<Entry>| starting.as_ref().is_some_and(|it| it.run_id == entry.run_id());
        let entries = entries.into_iter().filter(|entry| !is_starting(entry));
        runs.extend(entries.map(|entry| (modified(entry.directory()), entry.message())));
        runs.extend(starting.as_ref().map(|starting| (SystemTime::now(), starting.message())));
        for entry in std::fs::read_dir(&self.shared.settings.runs).into_iter().flatten().flatten() {
            match stored(&entry.path()) {
                Ok(Some(run)) if !runs.iter().any(|(_, known)| known.run_id == run.run_id) => {
                    runs.push((modified(&entry.path()), run));
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "a run cannot be listed"),
            }
        }
        runs.sort_by(|(a_time, a), (b_time, b)| b_time.cmp(a_time).then_with(|| a.run_id.cmp(&b.run_id)));
        runs.into_iter().map(|(_, run)| run).collect()
    }
}

/// When a run directory was created or resumed last.
fn modified(directory: &Path) -> SystemTime {
    std::fs::metadata(directory.join(RUN_FILE)).and_then(|data| data.modified()).unwrap_or(UNIX_EPOCH)
}
