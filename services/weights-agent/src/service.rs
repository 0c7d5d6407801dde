//! `evenkeel.v1.WeightsAgent`.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::weights_agent_server::WeightsAgent;
use evenkeel_proto::v1::{PullRequest, PullResponse, WeightsAgentGetStatusRequest, WeightsAgentGetStatusResponse};
use evenkeel_proto::validate_digest;
use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::error::ServiceError;
use evenkeel_rpc::server::ServerInfo;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use crate::description::Wanted;
use crate::pull::{Pulled, Puller, too_late};

/// Name of the server.
pub(crate) const NAME: &str = "weights";

pub(crate) struct WeightsAgentService {
    pub(crate) puller: Arc<Puller>,
    pub(crate) pull_timeout: Duration,
    pub(crate) info: ServerInfo,
}

impl WeightsAgentService {
    async fn pull_within(&self, request: &PullRequest, deadline: Deadline) -> Result<Pulled, ServiceError> {
        validate_digest("digest", &request.digest)?;
        if !request.files_digest.is_empty() {
            validate_digest("files_digest", &request.files_digest)?;
        }
        let PullRequest { version, digest, files_digest } = request.clone();
        let wanted = Wanted { version, digest, files_digest };
        let pulling = self.puller.pull(&wanted);
        deadline.run(pulling).await.unwrap_or_else(|late| Err(too_late(&self.puller.source, &late)))
    }
}

#[tonic::async_trait]
impl WeightsAgent for WeightsAgentService {
    async fn pull(&self, request: Request<PullRequest>) -> Result<Response<PullResponse>, Status> {
        let deadline = Deadline::of_call(request.metadata()).min(Deadline::after(self.pull_timeout));
        let request = request.into_inner();
        let started = Instant::now();
        let pulled = self.pull_within(&request, deadline).await;
        let outcome = match &pulled {
            Ok(pulled) if pulled.was_present => "present",
            Ok(_) => "pulled",
            Err(_) => "failed",
        };
        metrics::counter!("evenkeel_weights_pulls_total", "outcome" => outcome).increment(1);
        let version = request.version;
        let Pulled { path, counts, was_present } = pulled.map_err(|error| {
            tracing::warn!(version, %error, "weights not fetched");
            Status::from(error)
        })?;
        if !was_present {
            metrics::counter!("evenkeel_weights_fetched_bytes_total").increment(counts.fetched);
            metrics::counter!("evenkeel_weights_reused_bytes_total").increment(counts.reused);
            metrics::histogram!("evenkeel_weights_pull_seconds").record(started.elapsed());
            let fetched_bytes = counts.fetched;
            let reused_bytes = counts.reused;
            let ms = started.elapsed().as_millis() as u64;
            tracing::info!(version, fetched_bytes, reused_bytes, ms, "weights fetched");
        }
        let path = path.to_string_lossy().into_owned();
        Ok(Response::new(PullResponse { path, fetched_bytes: counts.fetched, reused_bytes: counts.reused }))
    }

    async fn get_status(
        &self,
        _: Request<WeightsAgentGetStatusRequest>,
    ) -> Result<Response<WeightsAgentGetStatusResponse>, Status> {
        let folders = self.puller.folders.names();
        Ok(Response::new(WeightsAgentGetStatusResponse { server: Some(self.info.status()), folders }))
    }
}
