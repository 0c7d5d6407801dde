//! The gRPC API: requests of episodes in, their events out.

use std::sync::Arc;

use evenkeel_proto::v1::environment_server::Environment;
use evenkeel_proto::v1::{
    EnvironmentEvent, EnvironmentGetStatusRequest, EnvironmentGetStatusResponse, EnvironmentRequest,
};
use evenkeel_rpc::server::{Drain, ServerInfo};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::catalog::Catalog;
use crate::counts::Episodes;
use crate::episode::WorkerLimits;
use crate::settings::EnvironmentSettings;
use crate::stream::{EpisodeStream, MAX_UNREAD};

pub(crate) struct EnvironmentService {
    catalog: Arc<Catalog>,
    episodes: Arc<Episodes>,
    limits: WorkerLimits,
    drain: Drain,
    info: ServerInfo,
}

impl EnvironmentService {
    pub(crate) fn new(settings: &EnvironmentSettings, catalog: Catalog, drain: Drain) -> Self {
        Self {
            catalog: Arc::new(catalog),
            episodes: Episodes::new(settings.max_episodes),
            limits: WorkerLimits { step: settings.step_deadline, idle: settings.idle_timeout },
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
        let catalog = Arc::clone(&self.catalog);
        let episodes = Arc::clone(&self.episodes);
        let stream = EpisodeStream::new(catalog, episodes, self.limits, self.drain.clone(), events);
        tokio::spawn(stream.run(request.into_inner()));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn get_status(
        &self,
        _: Request<EnvironmentGetStatusRequest>,
    ) -> Result<Response<EnvironmentGetStatusResponse>, Status> {
        Ok(Response::new(EnvironmentGetStatusResponse {
            server: Some(self.info.status()),
            environments: self.catalog.infos(),
            open_episodes: self.episodes.open() as u64,
            max_episodes: self.episodes.most() as u64,
            episodes: self.episodes.by_end(),
        }))
    }
}
