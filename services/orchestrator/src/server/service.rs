//! Starting, stopping and looking at runs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_common::deadline::Deadline;
use evenkeel_common::error::ServiceError;
use evenkeel_common::server::Drain;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::orchestrator_server::Orchestrator;
use evenkeel_proto::v1::{
    DependencyStatus, GetRunRequest, GetRunResponse, ListRunsRequest, ListRunsResponse, OrchestratorGetStatusRequest,
    OrchestratorGetStatusResponse, Run as RunMessage, ServerStatus, StartRunRequest, StartRunResponse, StepMetrics,
    StopMode as StopModeMessage, StopRunRequest, StopRunResponse, WatchRunRequest,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::registry::{Entry, Inspect, Registry, service_error, stored};
use super::request::{configured, resolve};
use super::{OrchestratorConfig, watch};
use crate::directory::RunDirectory;
use crate::error::RunError;
use crate::recipe::{Inspection, Recipe};
use crate::run::{Run, RunOptions};
use crate::settings::is_run_name;

/// Runs in a page of ListRuns where the request does not say, and at most.
const PAGE: (usize, usize) = (100, 1_000);

/// Serves runs over a folder of run directories. One run is in work at a time, since a learner trains one. Clones are the same.
#[derive(Clone)]
pub struct OrchestratorService {
    shared: Arc<Shared>,
}

struct Shared {
    config: OrchestratorConfig,
    inspect: Option<Inspect>,
    drain: Drain,
    registry: Mutex<Registry>,
    began: std::time::Instant,
}

impl OrchestratorService {
    /// `drain` is the server's: when it begins, the run in work is stopped after its step.
    pub fn new(config: OrchestratorConfig, inspect: Option<Inspect>, drain: Drain) -> Self {
        let shared = Shared { config, inspect, drain, registry: Mutex::default(), began: std::time::Instant::now() };
        Self { shared: Arc::new(shared) }
    }

    /// Starts a run as [`StartRun`](Orchestrator::start_run) does.
    ///
    /// # Errors
    /// As StartRun.
    pub fn start(&self, request: StartRunRequest) -> Result<RunMessage, ServiceError> {
        if self.shared.drain.is_draining() {
            return Err(ServiceError::Draining);
        }
        let mut registry = self.registry();
        let (recipe, run_id, path) = resolve(&request, &self.shared.config.runs)?;
        let inspection = match &self.shared.inspect {
            Some(inspect) => inspect(&recipe)?,
            None => Inspection::untyped(&recipe),
        };
        let known = registry.get(&run_id).map(|entry| entry.message());
        let known = match known {
            Some(run) => Some(run),
            None => stored(&path).map_err(service_error)?,
        };
        let active = registry.active();
        match known {
            Some(run) if run.settings_hash != inspection.identity => {
                return Err(ServiceError::AlreadyExists { what: format!("run `{run_id}` with other settings") });
            }
            // Told twice, it is started once.
            Some(run) if !request.resume || active.as_ref().is_some_and(|entry| entry.run_id == run_id) => {
                return Ok(run);
            }
            None if request.resume => return Err(ServiceError::NotFound { what: format!("run `{run_id}`") }),
            _ => {}
        }
        if let Some(other) = active {
            let message = format!("run `{}` is in work, and a learner trains one at a time", other.run_id);
            return Err(ServiceError::Precondition { reason: "BUSY", message });
        }
        let identity = inspection.identity.clone();
        let started = self.launch(recipe, &path, request.resume, inspection).map_err(service_error)?;
        let entry = Arc::new(Entry::of(started, identity));
        let message = entry.message();
        registry.insert(Arc::clone(&entry));
        self.stop_with_the_server(entry);
        Ok(message)
    }

    /// Starts the run that the settings name, or goes on with it where its directory is there already. Nothing where they name none,
    /// or where all its steps are done.
    ///
    /// # Errors
    /// As StartRun.
    pub fn begin(&self) -> Result<(), ServiceError> {
        match configured(&self.shared.config)? {
            Some(request) => self.start(request).map(drop),
            None => Ok(()),
        }
    }

    fn launch(
        &self,
        recipe: Recipe,
        path: &std::path::Path,
        resume: bool,
        inspection: Inspection,
    ) -> Result<crate::RunHandle, RunError> {
        let directory = match resume {
            true => RunDirectory::resume(path, &recipe, &inspection.identity)?,
            false => RunDirectory::create(path, &recipe, &inspection.identity)?,
        };
        let Inspection { learner_settings_hash, notes, .. } = inspection;
        let options = RunOptions { learner_settings_hash, notes, model: None };
        Run::start(recipe, directory, self.shared.config.endpoints.clone(), options)
    }

    /// A server that drains takes its run with it, after the step.
    fn stop_with_the_server(&self, entry: Arc<Entry>) {
        let drain = self.shared.drain.clone();
        let mut ended = entry.ended.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = drain.draining() => entry.stop.0.ask(false),
                _ = ended.wait_for(|ended| *ended) => {}
            }
        });
    }

    /// Waits until no run is in work: for servers, before their process ends.
    pub async fn idle(&self) {
        while let Some(entry) = self.active() {
            let _ = entry.ended.clone().wait_for(|ended| *ended).await;
        }
    }

    fn active(&self) -> Option<Arc<Entry>> {
        self.registry().active()
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.shared.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, run_id: &str) -> Result<Arc<Entry>, ServiceError> {
        self.registry().get(run_id).ok_or_else(|| ServiceError::NotFound { what: format!("run `{run_id}`") })
    }

    fn message_of(&self, run_id: &str) -> Result<RunMessage, ServiceError> {
        match self.find(run_id) {
            Ok(entry) => Ok(entry.message()),
            Err(missing) if is_run_name(run_id) => {
                stored(&self.shared.config.runs.join(run_id)).map_err(service_error)?.ok_or(missing)
            }
            Err(missing) => Err(missing),
        }
    }

    /// All runs, the newest first.
    fn list(&self) -> Vec<RunMessage> {
        let mut runs: Vec<(std::time::SystemTime, RunMessage)> = Vec::new();
        let entries = self.registry().all();
        let modified = |path: &std::path::Path| {
            std::fs::metadata(path.join("run.json")).and_then(|data| data.modified()).unwrap_or(std::time::UNIX_EPOCH)
        };
        runs.extend(entries.iter().map(|entry| (modified(&entry.directory), entry.message())));
        for entry in std::fs::read_dir(&self.shared.config.runs).into_iter().flatten().flatten() {
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

#[tonic::async_trait]
impl Orchestrator for OrchestratorService {
    type WatchRunStream = ReceiverStream<Result<StepMetrics, Status>>;

    async fn start_run(&self, request: Request<StartRunRequest>) -> Result<Response<StartRunResponse>, Status> {
        let service = self.clone();
        // Data sets and models are read and written: not on the threads that answer calls. The run itself belongs to the runtime.
        let started = tokio::task::spawn_blocking(move || service.start(request.into_inner())).await;
        let run = started.map_err(|error| ServiceError::Internal { message: error.to_string() })??;
        Ok(Response::new(StartRunResponse { run: Some(run) }))
    }

    async fn stop_run(&self, request: Request<StopRunRequest>) -> Result<Response<StopRunResponse>, Status> {
        let deadline = Deadline::of_call(request.metadata());
        let request = request.into_inner();
        let Ok(entry) = self.find(&request.run_id) else {
            let run = self.message_of(&request.run_id)?;
            return Ok(Response::new(StopRunResponse { run: Some(run) }));
        };
        entry.stop.0.ask(request.mode() == StopModeMessage::Now);
        let mut ended = entry.ended.clone();
        deadline.run(ended.wait_for(|ended| *ended)).await?.map_err(|_| ServiceError::Cancelled)?;
        Ok(Response::new(StopRunResponse { run: Some(entry.message()) }))
    }

    async fn get_run(&self, request: Request<GetRunRequest>) -> Result<Response<GetRunResponse>, Status> {
        let run = self.message_of(&request.into_inner().run_id)?;
        Ok(Response::new(GetRunResponse { run: Some(run) }))
    }

    async fn watch_run(&self, request: Request<WatchRunRequest>) -> Result<Response<Self::WatchRunStream>, Status> {
        let request = request.into_inner();
        let (directory, entry) = match self.find(&request.run_id) {
            Ok(entry) => (entry.directory.clone(), Some(entry)),
            Err(_) => (PathBuf::from(self.message_of(&request.run_id)?.directory), None),
        };
        let drain = self.shared.drain.clone();
        Ok(Response::new(watch::follow(request, directory, entry, drain)))
    }

    async fn list_runs(&self, request: Request<ListRunsRequest>) -> Result<Response<ListRunsResponse>, Status> {
        let request = request.into_inner();
        let size = match request.page_size as usize {
            0 => PAGE.0,
            size => size.min(PAGE.1),
        };
        let mut runs = self.list();
        if !request.page_token.is_empty() {
            let after = runs.iter().position(|run| run.run_id == request.page_token);
            let allowed = "the next_page_token of the page before";
            let after = after
                .ok_or_else(|| FieldError::new("page_token", &request.page_token, allowed))
                .map_err(ServiceError::from)?;
            runs.drain(..=after);
        }
        let more = runs.len() > size;
        runs.truncate(size);
        let next_page_token = runs.last().filter(|_| more).map(|run| run.run_id.clone()).unwrap_or_default();
        Ok(Response::new(ListRunsResponse { runs, next_page_token }))
    }

    async fn get_status(
        &self,
        _: Request<OrchestratorGetStatusRequest>,
    ) -> Result<Response<OrchestratorGetStatusResponse>, Status> {
        let server = ServerStatus {
            name: "orchestrator".to_owned(),
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: self.shared.began.elapsed().as_millis() as u64,
            draining: self.shared.drain.is_draining(),
        };
        let active = self.active();
        let endpoints = &self.shared.config.endpoints;
        let waiting = active.as_ref().map(|entry| entry.message().message).unwrap_or_default();
        let named = [("generation", &endpoints.generation), ("learner", &endpoints.learner)];
        let all = named.into_iter().chain(endpoints.reward.iter().map(|endpoint| ("reward", endpoint)));
        let dependencies = all.map(|(service, endpoint)| {
            // Connections belong to runs: what a run waits for is the one that is not there.
            let last_error = if waiting.contains(endpoint.as_str()) { waiting.clone() } else { String::new() };
            DependencyStatus {
                service: service.to_owned(),
                endpoint: endpoint.clone(),
                connected: active.is_some() && last_error.is_empty(),
                outstanding_items: 0,
                last_error,
            }
        });
        Ok(Response::new(OrchestratorGetStatusResponse {
            server: Some(server),
            dependencies: dependencies.collect(),
            active_runs: active.iter().map(|entry| entry.message()).collect(),
        }))
    }
}
