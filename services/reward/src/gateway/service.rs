//! The gRPC API of a gateway: that of a worker, with every item judged elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_proto::v1::reward_server::Reward;
use evenkeel_proto::v1::{
    RewardGetStatusRequest, RewardGetStatusResponse, Verdict, VerifyItem, VerifyOneRequest, VerifyOneResponse,
    VerifyRequest,
};
use evenkeel_rpc::dispatch::Dispatcher;
use evenkeel_rpc::error::millis;
use evenkeel_rpc::items::{ItemContext, ItemServer, Items, ResponseStream, VerifyItems};
use evenkeel_rpc::server::{Drain, ServerInfo};
use tonic::{Request, Response, Status, Streaming};

use super::status::Workers;

/// Attempts at an item: its clients notice nothing of a worker that was lost or failed.
const MAX_ATTEMPTS: u32 = 3;

/// A gateway.
pub(super) struct GatewayService {
    forwarder: Arc<Forwarder>,
    workers: Workers,
    items: ItemServer<VerifyItems>,
    info: ServerInfo,
}

/// Hands items on.
struct Forwarder {
    dispatcher: Dispatcher<VerifyItems>,
    /// Two clients may use the same id, and a worker sees both: on the way to it items are numbered.
    next: AtomicU64,
}

impl Forwarder {
    /// The verdict of whichever worker gets the item. Dropping the future cancels the item there.
    async fn forward(self: Arc<Self>, mut item: VerifyItem, context: ItemContext) -> Verdict {
        let number = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let id = std::mem::replace(&mut item.id, number);
        item.deadline_ms = context.deadline.remaining().map(millis);
        if item.traceparent.is_empty() {
            item.traceparent = context.trace.child().to_string();
        }
        match self.dispatcher.call(item, MAX_ATTEMPTS).await.result {
            Ok(verdict) => Verdict { id, ..verdict },
            Err(error) => VerifyItems::failed(id, error.failure()),
        }
    }
}

impl GatewayService {
    pub(super) fn new(
        name: String,
        dispatcher: Dispatcher<VerifyItems>,
        workers: Workers,
        items: ItemServer<VerifyItems>,
        drain: Drain,
    ) -> Self {
        let forwarder = Arc::new(Forwarder { dispatcher, next: AtomicU64::new(0) });
        Self { forwarder, workers, items, info: ServerInfo::new(name, drain) }
    }
}

#[tonic::async_trait]
impl Reward for GatewayService {
    type VerifyStream = ResponseStream<Verdict>;

    async fn verify(&self, request: Request<Streaming<VerifyRequest>>) -> Result<Response<Self::VerifyStream>, Status> {
        let forwarder = Arc::clone(&self.forwarder);
        Ok(self.items.serve(request, move |item, context| Arc::clone(&forwarder).forward(item, context)))
    }

    async fn verify_one(&self, request: Request<VerifyOneRequest>) -> Result<Response<VerifyOneResponse>, Status> {
        self.items.verify_one(request, |item, context| Arc::clone(&self.forwarder).forward(item, context)).await
    }

    /// The workers together, and the gateway's own queue.
    async fn get_status(
        &self,
        _: Request<RewardGetStatusRequest>,
    ) -> Result<Response<RewardGetStatusResponse>, Status> {
        let together = self.workers.status().await?;
        Ok(Response::new(RewardGetStatusResponse {
            server: Some(self.info.status()),
            queue: Some(self.items.status()),
            ..together
        }))
    }
}
