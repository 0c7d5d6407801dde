//! `evenkeel.v1.Generation` over an engine pool.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::generation_server::Generation;
use evenkeel_proto::v1::{
    EngineStatus, GenerateRequest, GenerationGetStatusRequest, GenerationGetStatusResponse, ModelInfo,
    ProveWeightsRequest, ProveWeightsResponse, Rollout, SleepRequest, SleepResponse, UpdateWeightsRequest,
    UpdateWeightsResponse, WakeUpRequest, WakeUpResponse, generate_request,
};
use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::error::millis;
use evenkeel_rpc::items::{GenerateItems, ItemServer, ResponseStream};
use evenkeel_rpc::server::{Drain, ServerInfo};
use tokio_stream::StreamExt;
use tokio_util::sync::DropGuard;
use tonic::{Request, Response, Status, Streaming};

use crate::pool::{EnginePool, EngineSnapshot, PooledEngine};
use crate::sample::answer;
use crate::update::Updater;

/// Name of the server.
pub(crate) const NAME: &str = "generation";

pub(crate) struct GenerationService {
    pool: Arc<EnginePool>,
    items: ItemServer<GenerateItems>,
    updater: Updater,
    info: ServerInfo,
    /// Stops discovery and monitoring with the service.
    _background: DropGuard,
}

impl GenerationService {
    pub(crate) fn new(
        pool: Arc<EnginePool>,
        items: ItemServer<GenerateItems>,
        drain: Drain,
        background: DropGuard,
    ) -> Self {
        let updater = Updater::new(Arc::clone(&pool));
        Self { pool, items, updater, info: ServerInfo::new(NAME, drain), _background: background }
    }

    fn status(&self) -> GenerationGetStatusResponse {
        let pool = &self.pool;
        let weights = pool.weights();
        let missing = pool.missing_for_adapters();
        let limits = pool.adapter_limits();
        let model = pool.model().and_then(|model| model.info.clone()).unwrap_or_default();
        let engines = pool.snapshot().into_iter().map(|(engine, snapshot)| engine_status(&engine, snapshot));
        GenerationGetStatusResponse {
            server: Some(self.info.status()),
            policy_version: weights.number,
            weights_digest: weights.digest.clone(),
            model: Some(ModelInfo { context_tokens: pool.context_tokens(), ..model }),
            queue: Some(self.items.status()),
            engines: engines.collect(),
            takes_tied_head: pool.takes_tied_head(),
            takes_adapters: missing.is_none(),
            adapters_missing: missing.unwrap_or_default().to_owned(),
            max_adapters: limits.map_or(0, |limits| limits.live as u64),
            max_adapter_rank: limits.map_or(0, |limits| limits.rank as u64),
        }
    }
}

#[tonic::async_trait]
impl Generation for GenerationService {
    type GenerateStream = ResponseStream<Rollout>;

    async fn generate(
        &self,
        request: Request<Streaming<GenerateRequest>>,
    ) -> Result<Response<Self::GenerateStream>, Status> {
        let default = self.pool.settings().item_deadline;
        let request =
            request.map(|items| items.map(move |request| request.map(|request| with_deadline(request, default))));
        let pool = Arc::clone(&self.pool);
        Ok(self.items.serve(request, move |item, context| answer(Arc::clone(&pool), item, context)))
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

    async fn prove_weights(
        &self,
        request: Request<ProveWeightsRequest>,
    ) -> Result<Response<ProveWeightsResponse>, Status> {
        let call = Deadline::of_call(request.metadata());
        Ok(Response::new(self.updater.prove(request.into_inner(), call).await?))
    }

    async fn get_status(
        &self,
        _: Request<GenerationGetStatusRequest>,
    ) -> Result<Response<GenerationGetStatusResponse>, Status> {
        Ok(Response::new(self.status()))
    }
}

/// Every item has a deadline.
fn with_deadline(mut request: GenerateRequest, default: Duration) -> GenerateRequest {
    if let Some(generate_request::Kind::Item(item)) = &mut request.kind {
        item.deadline_ms.get_or_insert(millis(default));
    }
    request
}

fn engine_status(engine: &PooledEngine, snapshot: EngineSnapshot) -> EngineStatus {
    EngineStatus {
        name: engine.name().to_owned(),
        endpoint: engine.client().endpoint().to_owned(),
        engine_version: engine.info().map(|info| info.version.clone()).unwrap_or_default(),
        health: snapshot.state.health().into(),
        policy_version: snapshot.reported_version,
        in_flight_items: snapshot.in_flight as u64,
        in_flight_tokens: snapshot.outstanding_tokens,
        tokens_per_second: snapshot.tokens_per_second,
        consecutive_failures: snapshot.failures,
        last_error: snapshot.last_error.unwrap_or_default(),
        running_requests: snapshot.metrics.map(|metrics| metrics.running),
        waiting_requests: snapshot.metrics.map(|metrics| metrics.waiting),
        cache_usage: snapshot.metrics.map(|metrics| metrics.cache_usage),
        asleep: engine.is_asleep(),
        arithmetic: engine.arithmetic().to_owned(),
    }
}
