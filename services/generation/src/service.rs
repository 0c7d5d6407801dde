//! `evenkeel.v1.Generation` over a fleet of engines.

use std::sync::Arc;

use evenkeel_proto::v1::generation_server::Generation;
use evenkeel_proto::v1::{
    GenerateRequest, GenerationGetStatusRequest, GenerationGetStatusResponse, Rollout, SleepRequest, SleepResponse,
    UpdateWeightsRequest, UpdateWeightsResponse, WakeUpRequest, WakeUpResponse, generate_request,
};
use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::items::{AnswerStream, GenerateItems, ItemServer};
use evenkeel_rpc::server::Drain;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tokio_util::sync::DropGuard;
use tonic::{Request, Response, Status, Streaming};

use crate::fleet::Fleet;
use crate::sample::answer;
use crate::status::status;
use crate::weights::Updater;

/// The service.
pub(crate) struct GenerationService {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) items: ItemServer<GenerateItems>,
    pub(crate) updater: Updater,
    pub(crate) drain: Drain,
    pub(crate) started: Instant,
    /// Ends what looks after the engines.
    pub(crate) _watching: DropGuard,
}

#[tonic::async_trait]
impl Generation for GenerationService {
    type GenerateStream = AnswerStream<Rollout>;

    async fn generate(
        &self,
        request: Request<Streaming<GenerateRequest>>,
    ) -> Result<Response<Self::GenerateStream>, Status> {
        let call = Deadline::of_call(request.metadata());
        let deadline_ms = self.fleet.settings.item_deadline_ms;
        let requests = request.into_inner().map(move |request| request.map(|request| bounded(request, deadline_ms)));
        let fleet = Arc::clone(&self.fleet);
        let handler = move |item, context| answer(Arc::clone(&fleet), item, context);
        Ok(Response::new(self.items.serve(requests, call, handler)))
    }

    async fn update_weights(
        &self,
        request: Request<UpdateWeightsRequest>,
    ) -> Result<Response<UpdateWeightsResponse>, Status> {
        let call = Deadline::of_call(request.metadata());
        Ok(Response::new(self.updater.update(request.into_inner(), call).await?))
    }

    async fn sleep(&self, request: Request<SleepRequest>) -> Result<Response<SleepResponse>, Status> {
        let call = Deadline::of_call(request.metadata());
        Ok(Response::new(self.updater.sleep(request.into_inner(), call).await?))
    }

    async fn wake_up(&self, request: Request<WakeUpRequest>) -> Result<Response<WakeUpResponse>, Status> {
        let call = Deadline::of_call(request.metadata());
        Ok(Response::new(self.updater.wake(request.into_inner(), call).await?))
    }

    async fn get_status(
        &self,
        _: Request<GenerationGetStatusRequest>,
    ) -> Result<Response<GenerationGetStatusResponse>, Status> {
        Ok(Response::new(status(self)))
    }
}

/// No item without a deadline.
fn bounded(mut request: GenerateRequest, deadline_ms: u64) -> GenerateRequest {
    if let Some(generate_request::Kind::Item(item)) = &mut request.kind {
        item.deadline_ms.get_or_insert(deadline_ms);
    }
    request
}
