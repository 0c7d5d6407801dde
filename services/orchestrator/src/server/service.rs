//! Starting, stopping and looking at runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::orchestrator_server::Orchestrator;
use evenkeel_proto::v1::{
    DependencyStatus, GetRunRequest, GetRunResponse, ListRunsRequest, ListRunsResponse, OrchestratorGetStatusRequest,
    OrchestratorGetStatusResponse, Run as RunMessage, RunState, ServerStatus, StartRunRequest, StartRunResponse,
    StepMetrics, StopMode as StopModeMessage, StopRunRequest, StopRunResponse, WatchRunRequest,
};
use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::error::ServiceError;
use evenkeel_rpc::server::Drain;
use tokio::sync::{Semaphore, oneshot, watch as signal};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::registry::{End, Entry, Registry, Starting, service_error, stored};
use super::request::{configured, resolve};
use super::{OrchestratorConfig, metrics_stream};
use crate::directory::RunDirectory;
use crate::load::Cancel;
use crate::recipe::RecipeReader;
use crate::run::{Run, RunOptions};
use crate::settings::is_run_name;

/// Runs in a page of ListRuns where the request does not say, and at most.
const PAGE: (usize, usize) = (100, 1_000);

/// Requests to start a run that are decided about at once: one that loads, and others that are refused meanwhile.
const DECIDING: usize = 4;

/// What became of a request to start a run.
enum Decision {
    /// The run, as it is.
    Run(Box<RunMessage>),
    /// The same run is being started by another call: its end decides.
    Wait(Starting),
}

impl Decision {
    fn run(run: RunMessage) -> Self {
        Self::Run(Box::new(run))
    }
}

/// Whether a request may start its run.
enum Claimed {
    Decided(Decision),
    Start,
}

/// The right to start a run. Whoever waits for it is woken when it ends, however it ends.
struct Claim<'a> {
    service: &'a OrchestratorService,
    _done: signal::Sender<()>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.service.registry().starting = None;
    }
}

/// Takes a start back that nobody waits for any more.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Serves runs over a folder of run directories. One run is in work at a time, since a learner trains one. Clones are the same.
#[derive(Clone)]
pub struct OrchestratorService {
    shared: Arc<Shared>,
}

struct Shared {
    config: OrchestratorConfig,
    reader: Arc<dyn RecipeReader>,
    drain: Drain,
    registry: Mutex<Registry>,
    /// Requests to start a run that are being decided about at once.
    deciding: Arc<Semaphore>,
    began: std::time::Instant,
}

impl OrchestratorService {
    /// `drain` is the server's: when it begins, the run in work is stopped after its step.
    pub fn new(config: OrchestratorConfig, reader: Arc<dyn RecipeReader>, drain: Drain) -> Self {
        let shared = Shared {
            config,
            reader,
            drain,
            registry: Mutex::default(),
            deciding: Arc::new(Semaphore::new(DECIDING)),
            began: std::time::Instant::now(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Starts a run as [`StartRun`](Orchestrator::start_run) does. A start whose future is dropped is taken back, unless the run has
    /// begun.
    ///
    /// # Errors
    /// As StartRun.
    pub async fn start(&self, request: StartRunRequest) -> Result<RunMessage, ServiceError> {
        let cancel = Cancel::default();
        let _gone = CancelOnDrop(cancel.clone());
        loop {
            if self.shared.drain.is_draining() {
                return Err(ServiceError::Draining);
            }
            let permit = Arc::clone(&self.shared.deciding).acquire_owned().await;
            let permit = permit.map_err(|error| ServiceError::Internal { message: error.to_string() })?;
            let (service, request, cancel) = (self.clone(), request.clone(), cancel.clone());
            let runtime = tokio::runtime::Handle::current();
            let (sender, decided) = oneshot::channel();
            // Data sets and models are read and written on a thread of its own: not on those that answer calls, nor on one that the
            // runtime would wait for at the end of the process. The run itself belongs to the runtime.
            let thread = std::thread::Builder::new().name("start".to_owned()).spawn(move || {
                let (_permit, _runtime) = (permit, runtime.enter());
                let _ = sender.send(service.decide(&request, &cancel));
            });
            thread.map_err(|error| ServiceError::Internal { message: format!("no thread to load a run: {error}") })?;
            let decided = tokio::select! {
                decided = decided => decided,
                () = self.shared.drain.draining() => return Err(ServiceError::Draining),
            };
            match decided.map_err(|_| ServiceError::Internal { message: "loading the run broke off".to_owned() })?? {
                Decision::Run(run) => return Ok(*run),
                Decision::Wait(starting) => starting.wait().await,
            }
        }
    }

    /// Decides about a request and carries it out. Blocks; the registry is locked for moments only.
    fn decide(&self, request: &StartRunRequest, cancel: &Cancel) -> Result<Decision, ServiceError> {
        let (recipe, run_id, path) = resolve(request, &self.shared.config.runs, &*self.shared.reader)?;
        let (done, waiting) = signal::channel(());
        let starting = Starting {
            run_id: run_id.clone(),
            directory: path.clone(),
            settings_hash: recipe.identity.clone(),
            total_steps: recipe.recipe.run.steps,
            cancel: cancel.clone(),
            done: waiting,
        };
        let claim = match self.claim(request, starting, &path)? {
            Claimed::Decided(decision) => return Ok(decision),
            Claimed::Start => Claim { service: self, _done: done },
        };
        let directory = match request.resume {
            true => RunDirectory::resume(&path, &recipe.identity),
            false => RunDirectory::create(&path, &recipe),
        };
        let directory = directory.map_err(service_error)?;
        let options = RunOptions { limits: self.shared.config.limits.clone(), cancel: cancel.clone() };
        let endpoints = self.shared.config.endpoints.clone();
        let handle = Run::start(recipe, directory.clone(), endpoints, options).map_err(service_error)?;
        let entry = Arc::new(Entry::of(handle, directory));
        let message = entry.message();
        // Before the claim ends: nobody may see neither.
        self.registry().insert(Arc::clone(&entry));
        drop(claim);
        self.stop_with_the_server(entry);
        Ok(Decision::run(message))
    }

    /// Whether the run is there already, cannot be, or is to be started now: then nobody else starts one until the claim ends.
    fn claim(&self, request: &StartRunRequest, starting: Starting, path: &Path) -> Result<Claimed, ServiceError> {
        let Starting { run_id, settings_hash, .. } = &starting;
        // Read before the registry is locked. A run that begins meanwhile is in the registry.
        let stored = stored(path).map_err(service_error)?;
        let mut registry = self.registry();
        let entry = registry.get(run_id).filter(|entry| entry.is_there());
        let (active, other) = (registry.active(), registry.starting.clone());
        let known = entry.as_ref().map(|entry| &entry.settings_hash).or(stored.as_ref().map(|run| &run.settings_hash));
        let is_active = active.as_ref().is_some_and(|entry| entry.run_id == *run_id);
        match (known, &other) {
            (Some(known), _) if known != settings_hash => {
                return Err(ServiceError::AlreadyExists { what: format!("run `{run_id}` with other settings") });
            }
            // Told twice, it is started once.
            (Some(_), _) if !request.resume || is_active => {
                drop(registry);
                let run = entry.map(|entry| entry.message()).or(stored);
                return Ok(Claimed::Decided(Decision::run(run.unwrap_or_default())));
            }
            (_, Some(other)) if other.run_id == *run_id => {
                if other.settings_hash == *settings_hash {
                    return Ok(Claimed::Decided(Decision::Wait(other.clone())));
                }
                let message = format!("run `{run_id}` is being started with other settings");
                return Err(ServiceError::Conflict { message });
            }
            (None, _) if request.resume => return Err(ServiceError::NotFound { what: format!("run `{run_id}`") }),
            _ => {}
        }
        let busy = active.map(|entry| entry.run_id.clone()).or(other.map(|other| other.run_id));
        if let Some(other) = busy {
            let message = format!("run `{other}` is in work, and a learner trains one at a time");
            return Err(ServiceError::Precondition { reason: "BUSY", message });
        }
        registry.starting = Some(starting);
        Ok(Claimed::Start)
    }

    /// Starts the run that the settings name, or goes on with it where its directory is there already. Nothing where they name none,
    /// or where all its steps are done.
    ///
    /// # Errors
    /// As StartRun.
    pub async fn begin(&self) -> Result<(), ServiceError> {
        match configured(&self.shared.config, &*self.shared.reader)? {
            Some(request) => self.start(request).await.map(drop),
            None => Ok(()),
        }
    }

    /// A server that drains takes its run with it, after the step.
    fn stop_with_the_server(&self, entry: Arc<Entry>) {
        let drain = self.shared.drain.clone();
        let mut ended = entry.ended.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = drain.draining() => entry.stop.0.after_step(),
                _ = ended.wait_for(|end| *end != End::No) => {}
            }
        });
    }

    /// Waits until no run is in work: for servers, before their process ends.
    pub async fn idle(&self) {
        while let Some(entry) = self.active() {
            let _ = entry.ended.clone().wait_for(|end| *end != End::No).await;
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

    fn starting(&self, run_id: &str) -> Option<Starting> {
        self.registry().starting.clone().filter(|starting| starting.run_id == run_id)
    }

    fn message_of(&self, run_id: &str) -> Result<RunMessage, ServiceError> {
        if let Some(starting) = self.starting(run_id) {
            return Ok(starting.message());
        }
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
        let (entries, starting) = {
            let registry = self.registry();
            (registry.all(), registry.starting.clone())
        };
        let entries = entries.into_iter().filter(|entry| starting.as_ref().is_none_or(|it| it.run_id != entry.run_id));
        let entries: Vec<_> = entries.collect();
        runs.extend(starting.map(|starting| (std::time::SystemTime::now(), starting.message())));
        let modified = |path: &Path| {
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
        let run = self.start(request.into_inner()).await?;
        Ok(Response::new(StartRunResponse { run: Some(run) }))
    }

    async fn stop_run(&self, request: Request<StopRunRequest>) -> Result<Response<StopRunResponse>, Status> {
        let deadline = Deadline::of_call(request.metadata());
        let request = request.into_inner();
        if let Some(starting) = self.starting(&request.run_id) {
            let run = RunMessage { state: RunState::Stopped.into(), ..starting.message() };
            starting.cancel.cancel();
            deadline.run(starting.wait()).await?;
            // It may have begun in this very moment.
            if self.find(&request.run_id).is_err() {
                return Ok(Response::new(StopRunResponse { run: Some(run) }));
            }
        }
        let Ok(entry) = self.find(&request.run_id) else {
            let run = self.message_of(&request.run_id)?;
            return Ok(Response::new(StopRunResponse { run: Some(run) }));
        };
        match request.mode() {
            StopModeMessage::Now => entry.stop.0.immediately(),
            _ => entry.stop.0.after_step(),
        }
        let mut ended = entry.ended.clone();
        deadline.run(ended.wait_for(|end| *end != End::No)).await?.map_err(|_| ServiceError::Cancelled)?;
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
        Ok(Response::new(metrics_stream::follow(request, directory, entry, drain)))
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
