//! The gRPC API: requests of episodes in, their events out.

use std::sync::Arc;

use evenkeel_episode::BuiltIn;
use evenkeel_proto::v1::environment_server::Environment;
use evenkeel_proto::v1::{
    EnvironmentEvent, EnvironmentGetStatusRequest, EnvironmentGetStatusResponse, EnvironmentInfo, EnvironmentRequest,
    ToolInfo,
};
use evenkeel_rpc::server::{Drain, ServerInfo};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::counts::Episodes;
use crate::open_episode::Limits;
use crate::settings::EnvironmentSettings;
use crate::stream::{EpisodeStream, MAX_UNREAD};

/// An environment worker.
pub(crate) struct EnvironmentService {
    episodes: Arc<Episodes>,
    limits: Limits,
    drain: Drain,
    info: ServerInfo,
}

impl EnvironmentService {
    pub(crate) fn new(settings: &EnvironmentSettings, drain: Drain) -> Self {
        Self {
            episodes: Episodes::new(settings.max_episodes),
            limits: Limits { step: settings.step_deadline, idle: settings.idle_timeout },
            info: ServerInfo::new(&settings.name, drain.clone()),
            drain,
        }
    }
}

#[tonic::async_trait]
impl Environment for EnvironmentService {
    type RunStream = ReceiverStream<Result<EnvironmentEvent, Status>>;

    async fn run(&self, request: Request<Streaming<EnvironmentRequest>>) -> Result<Response<Self::RunStream>, Status> {
        let (events, receiver) = mpsc::channel(MAX_UNREAD);
        let stream = EpisodeStream::new(Arc::clone(&self.episodes), self.limits, self.drain.clone(), events);
        tokio::spawn(stream.run(request.into_inner()));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn get_status(
        &self,
        _: Request<EnvironmentGetStatusRequest>,
    ) -> Result<Response<EnvironmentGetStatusResponse>, Status> {
        Ok(Response::new(EnvironmentGetStatusResponse {
            server: Some(self.info.status()),
            environments: BuiltIn::ALL.into_iter().map(info).collect(),
            open_episodes: self.episodes.open() as u64,
            max_episodes: self.episodes.most() as u64,
            episodes: self.episodes.by_end(),
        }))
    }
}

fn info(environment: BuiltIn) -> EnvironmentInfo {
    EnvironmentInfo {
        name: environment.name().to_owned(),
        system_prompt: environment.system_prompt().to_owned(),
        tools: environment.tools().iter().map(ToolInfo::from).collect(),
    }
}
