//! Starting a run: one at a time, atomically, and cancellable while it loads.

use std::path::Path;
use std::sync::Arc;

use evenkeel_proto::v1::start_run_request::Configuration;
use evenkeel_proto::v1::{Run as RunMessage, StartRunRequest};
use evenkeel_rpc::error::{Reason, ServiceError};
use evenkeel_run::RunDirectory;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::OrchestratorService;
use super::confinement::confine;
use super::registry::{Entry, Starting, service_error, stored};
use super::request::{configured, origin, resolve};
use crate::clients::describe_environments;
use crate::error::RunError;
use crate::run::{RunOptions, start_run};

/// Who starts a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Starter {
    /// A client: what its recipe names is confined.
    Client,
    /// Whoever runs the server.
    Operator,
}

/// The answer to a start request.
enum Decision {
    /// The run as it is.
    Run(Box<RunMessage>),
    /// Another call is starting the same run: wait for its outcome.
    Wait(Starting),
    /// A run has its last state and still writes its files: wait for its end.
    End(Arc<Entry>),
}

/// Whether a request may start its run.
enum Claim<'a> {
    Granted(StartClaim<'a>),
    Decided(Decision),
}

/// The right to start a run. Dropping it wakes the calls that wait for the outcome.
struct StartClaim<'a> {
    service: &'a OrchestratorService,
    _done: watch::Sender<()>,
}

impl Drop for StartClaim<'_> {
    fn drop(&mut self) {
        self.service.registry().set_starting(None);
    }
}

impl OrchestratorService {
    /// Starts the run that the settings name, or resumes it where its directory exists. Does nothing where they name
    /// none, or where it is completed.
    ///
    /// # Errors
    /// As StartRun.
    pub async fn start_configured(&self) -> Result<(), ServiceError> {
        match configured(self.settings(), self.reader())? {
            Some(request) => self.start_by(Starter::Operator, request).await.map(drop),
            None => Ok(()),
        }
    }

    /// Starts a run as StartRun does. Dropping the future cancels the start, unless the run has started.
    ///
    /// # Errors
    /// As StartRun.
    pub async fn start(&self, request: StartRunRequest) -> Result<RunMessage, ServiceError> {
        self.start_by(Starter::Client, request).await
    }

    async fn start_by(&self, starter: Starter, request: StartRunRequest) -> Result<RunMessage, ServiceError> {
        let cancel = CancellationToken::new();
        // A start that nobody waits for any more is cancelled.
        let _guard = cancel.clone().drop_guard();
        loop {
            if self.drain().is_draining() {
                return Err(ServiceError::Draining);
            }
            let permit = self.start_permits().acquire_owned().await;
            let permit = permit.map_err(|error| ServiceError::Internal { message: error.to_string() })?;
            let service = self.clone();
            let request = request.clone();
            let cancel = cancel.clone();
            let runtime = tokio::runtime::Handle::current();
            let (sender, decided) = oneshot::channel();
            // Data sets and models are loaded on a thread of its own: not on those that answer calls, nor on one that
            // the runtime would wait for at the end of the process. The run itself belongs to the runtime.
            let thread = std::thread::Builder::new().name("start".to_owned()).spawn(move || {
                let _permit = permit;
                let _runtime = runtime.enter();
                let _ = sender.send(service.decide(starter, &request, &cancel));
            });
            thread.map_err(|error| ServiceError::Internal { message: format!("no thread to load a run: {error}") })?;
            let decided = tokio::select! {
                decided = decided => decided,
                () = self.drain().draining() => return Err(ServiceError::Draining),
            };
            match decided.map_err(|_| ServiceError::Internal { message: "loading the run failed".to_owned() })?? {
                Decision::Run(run) => return Ok(*run),
                Decision::Wait(starting) => starting.wait().await,
                Decision::End(entry) => entry.wait_for_end().await,
            }
        }
    }

    /// Decides about a request and carries it out. Blocks; the registry is locked for moments only.
    fn decide(
        &self,
        starter: Starter,
        request: &StartRunRequest,
        cancel: &CancellationToken,
    ) -> Result<Decision, ServiceError> {
        let (mut recipe, run_id, path) = resolve(request, &self.settings().runs, self.reader())?;
        // The settings of an existing run were accepted when it was started.
        let is_as_it_was = !matches!(request.configuration, Some(Configuration::Recipe(_) | Configuration::Toml(_)))
            && request.overrides.is_empty();
        if starter == Starter::Client && !is_as_it_was {
            confine(&recipe, self.settings())?;
        }
        if let Some(client) = &self.settings().client {
            recipe.settings.services.client = client.clone();
        }
        let (done, waiting) = watch::channel(());
        let starting = Starting {
            run_id,
            directory: path.clone(),
            identity: recipe.identity.clone(),
            total_steps: recipe.settings.run.steps,
            cancel: cancel.clone(),
            done: waiting,
        };
        let claim = match self.claim(request, starting, done, &path)? {
            Claim::Decided(decision) => return Ok(decision),
            Claim::Granted(claim) => claim,
        };
        let directory = match &request.configuration {
            _ if request.resume => RunDirectory::resume(&path, recipe.record()),
            Some(Configuration::Fork(fork)) => {
                let origin = origin(fork, &self.settings().runs)?;
                RunDirectory::fork(&path, recipe.record(), &origin, fork.step)
            }
            _ => RunDirectory::create(&path, recipe.record()),
        };
        let directory = directory.map_err(service_error)?;
        let limits = self.settings().limits.clone();
        let cancel = cancel.clone();
        let options = RunOptions {
            limits,
            cancel,
            accept_changed_inputs: request.accept_changed_inputs,
            ..RunOptions::default()
        };
        let mut endpoints = self.settings().endpoints.clone();
        let describing = describe_environments(&recipe.settings, &endpoints.environment);
        let described = tokio::runtime::Handle::current().block_on(options.cancel.run_until_cancelled(describing));
        endpoints.described = described.unwrap_or(Err(RunError::Cancelled)).map_err(service_error)?;
        let handle = start_run(recipe, directory.clone(), endpoints, options).map_err(service_error)?;
        if let Some(page) = self.page() {
            page.attach(handle.live());
        }
        let entry = Arc::new(Entry::follow(handle, directory));
        let message = entry.message();
        // Before the claim ends, so that the run is always visible as one or the other.
        self.registry().insert(Arc::clone(&entry));
        drop(claim);
        self.stop_with_the_server(entry);
        Ok(Decision::Run(Box::new(message)))
    }

    /// Grants the right to start the run, unless it exists already or cannot start now.
    fn claim(
        &self,
        request: &StartRunRequest,
        starting: Starting,
        done: watch::Sender<()>,
        path: &Path,
    ) -> Result<Claim<'_>, ServiceError> {
        let Starting { run_id, identity, .. } = &starting;
        // Read before the registry is locked: a run that starts meanwhile is in the registry.
        let stored = stored(path).map_err(service_error)?;
        let mut registry = self.registry();
        let entry = registry.get(run_id).filter(|entry| entry.exists());
        let active = registry.active();
        if let Some(ending) = active.as_ref().filter(|entry| entry.state().has_ended()) {
            return Ok(Claim::Decided(Decision::End(Arc::clone(ending))));
        }
        let other = registry.starting();
        let known = entry.as_ref().map(|entry| entry.identity());
        let known = known.or(stored.as_ref().map(|run| run.settings_hash.as_str()));
        let is_active = active.as_ref().is_some_and(|entry| entry.run_id() == run_id);
        match (known, &other) {
            // Which settings keep a run from being resumed is said when its directory is opened.
            (Some(known), _) if known != identity && (!request.resume || is_active) => {
                return Err(ServiceError::AlreadyExists { what: format!("run `{run_id}` with other settings") });
            }
            // A repeated request starts nothing.
            (Some(_), _) if !request.resume || is_active => {
                drop(registry);
                let run = entry.map(|entry| entry.message()).or(stored);
                return Ok(Claim::Decided(Decision::Run(Box::new(run.unwrap_or_default()))));
            }
            (_, Some(other)) if other.run_id == *run_id => {
                if other.identity == *identity {
                    return Ok(Claim::Decided(Decision::Wait(other.clone())));
                }
                let message = format!("run `{run_id}` is being started with other settings");
                return Err(ServiceError::Conflict { message });
            }
            (None, _) if request.resume => return Err(ServiceError::NotFound { what: format!("run `{run_id}`") }),
            _ => {}
        }
        let busy = active.map(|entry| entry.run_id().to_owned()).or(other.map(|other| other.run_id));
        if let Some(other) = busy {
            let message = format!("run `{other}` is active, and a learner trains one at a time");
            return Err(ServiceError::Precondition { reason: Reason::Busy, message });
        }
        registry.set_starting(Some(starting));
        Ok(Claim::Granted(StartClaim { service: self, _done: done }))
    }
}
