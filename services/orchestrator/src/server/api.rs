//! The gRPC methods of `evenkeel.v1.Orchestrator`.

use std::path::PathBuf;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::Run as RunMessage;
use evenkeel_proto::v1::orchestrator_server::Orchestrator;
use evenkeel_proto::v1::{
    DependencyStatus, GetRunRequest, GetRunResponse, ListRunsRequest, ListRunsResponse, OrchestratorGetStatusRequest,
    OrchestratorGetStatusResponse, RunState, StartRunRequest, StartRunResponse, StepMetrics, StopMode, StopRunRequest,
    StopRunResponse, WatchRunRequest,
};
use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::error::ServiceError;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::{OrchestratorService, metrics_stream};
use crate::dependency::Dependency;

/// Runs in a page of ListRuns where the request does not say.
const DEFAULT_PAGE_SIZE: usize = 100;
/// Runs in a page of ListRuns at most.
const MAX_PAGE_SIZE: usize = 1_000;

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
            // It may have started at the same moment.
            if self.find(&request.run_id).is_err() {
                return Ok(Response::new(StopRunResponse { run: Some(run) }));
            }
        }
        let Ok(entry) = self.find(&request.run_id) else {
            let run = self.message_of(&request.run_id)?;
            return Ok(Response::new(StopRunResponse { run: Some(run) }));
        };
        match request.mode() {
            StopMode::Now => entry.stop_now(),
            StopMode::AfterStep | StopMode::Unspecified => entry.stop_after_step(),
        }
        deadline.run(entry.wait_for_end()).await?;
        Ok(Response::new(StopRunResponse { run: Some(entry.message()) }))
    }

    async fn get_run(&self, request: Request<GetRunRequest>) -> Result<Response<GetRunResponse>, Status> {
        let run = self.message_of(&request.into_inner().run_id)?;
        Ok(Response::new(GetRunResponse { run: Some(run) }))
    }

    async fn watch_run(&self, request: Request<WatchRunRequest>) -> Result<Response<Self::WatchRunStream>, Status> {
        let request = request.into_inner();
        let (directory, entry) = match self.find(&request.run_id) {
            Ok(entry) => (entry.directory().to_owned(), Some(entry)),
            Err(_) => (PathBuf::from(self.message_of(&request.run_id)?.directory), None),
        };
        let drain = self.drain().clone();
        Ok(Response::new(metrics_stream::follow(request, directory, entry, drain)))
    }

    async fn list_runs(&self, request: Request<ListRunsRequest>) -> Result<Response<ListRunsResponse>, Status> {
        let request = request.into_inner();
        let size = match request.page_size as usize {
            0 => DEFAULT_PAGE_SIZE,
            size => size.min(MAX_PAGE_SIZE),
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
        let active = self.active();
        let endpoints = &self.settings().endpoints;
        let waiting = active.as_ref().map(|entry| entry.progress());
        let named = [(Dependency::Generation, &endpoints.generation), (Dependency::Learner, &endpoints.learner)];
        let all = named.into_iter().chain(endpoints.reward.iter().map(|endpoint| (Dependency::Reward, endpoint)));
        let dependencies = all.map(|(service, endpoint)| {
            // Connections belong to runs: the one that a run waits for is down.
            let awaited = waiting.as_ref().filter(|progress| progress.waiting_for == Some(service));
            let last_error = awaited.map(|progress| progress.message.clone()).unwrap_or_default();
            DependencyStatus {
                service: service.label().to_owned(),
                endpoint: endpoint.clone(),
                connected: active.is_some() && last_error.is_empty(),
                outstanding_items: 0,
                last_error,
            }
        });
        Ok(Response::new(OrchestratorGetStatusResponse {
            server: Some(self.info().status()),
            dependencies: dependencies.collect(),
            active_runs: active.iter().map(|entry| entry.message()).collect(),
        }))
    }
}
