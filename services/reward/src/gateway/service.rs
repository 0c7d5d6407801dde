//! The gRPC API of a gateway: that of a worker, with every item judged elsewhere.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::reward_server::Reward;
use evenkeel_proto::v1::{
    RewardGetStatusRequest, RewardGetStatusResponse, ServerStatus, Verdict, VerifyItem, VerifyOneRequest,
    VerifyOneResponse, VerifyRequest,
};
use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::dispatch::Dispatcher;
use evenkeel_rpc::error::{ServiceError, millis};
use evenkeel_rpc::items::{ItemContext, ItemServer, Items, ResponseStream, VerifyItems};
use evenkeel_rpc::server::Drain;
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming};

use super::status::Workers;

/// A gateway.
pub(super) struct GatewayService {
    forwarder: Arc<Forwarder>,
    workers: Workers,
    items: ItemServer<VerifyItems>,
    drain: Drain,
    started: Instant,
    name: String,
}

/// Hands items on.
struct Forwarder {
    dispatcher: Dispatcher<VerifyItems>,
    /// Two clients may use the same id, and a worker sees both: on the way to it items are numbered.
    next: AtomicU64,
}

type HandlerFuture = Pin<Box<dyn Future<Output = Verdict> + Send>>;

impl Forwarder {
    /// The verdict of whichever worker gets the item. Dropping the future cancels the item there.
    async fn forward(self: Arc<Self>, mut item: VerifyItem, context: ItemContext) -> Verdict {
        let number = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let id = std::mem::replace(&mut item.id, number);
        item.deadline_ms = context.deadline.remaining().map(millis);
        if item.traceparent.is_empty() {
            item.traceparent = context.trace.child().to_string();
        }
        match self.dispatcher.call(item).await {
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
        Self { forwarder, workers, items, drain, started: Instant::now(), name }
    }

    fn handler(&self) -> impl Fn(VerifyItem, ItemContext) -> HandlerFuture + Send + Sync + use<> {
        let forwarder = Arc::clone(&self.forwarder);
        move |item, context| Box::pin(Arc::clone(&forwarder).forward(item, context))
    }
}

#[tonic::async_trait]
impl Reward for GatewayService {
    type VerifyStream = ResponseStream<Verdict>;

    async fn verify(&self, request: Request<Streaming<VerifyRequest>>) -> Result<Response<Self::VerifyStream>, Status> {
        let call = Deadline::of_call(request.metadata());
        Ok(Response::new(self.items.serve(request.into_inner(), call, self.handler())))
    }

    async fn verify_one(&self, request: Request<VerifyOneRequest>) -> Result<Response<VerifyOneResponse>, Status> {
        let call = Deadline::of_call(request.metadata());
        let item = request.into_inner().item;
        let item = item.ok_or_else(|| ServiceError::from(FieldError::missing("item", "an item to judge")))?;
        let verdict = self.items.serve_one(item, call, self.handler()).await;
        Ok(Response::new(VerifyOneResponse { verdict: Some(verdict) }))
    }

    /// The workers together, and the gateway's own queue.
    async fn get_status(
        &self,
        _: Request<RewardGetStatusRequest>,
    ) -> Result<Response<RewardGetStatusResponse>, Status> {
        let together = self.workers.status().await?;
        Ok(Response::new(RewardGetStatusResponse {
            server: Some(ServerStatus {
                name: self.name.clone(),
                program_version: env!("CARGO_PKG_VERSION").to_owned(),
                uptime_ms: millis(self.started.elapsed()),
                draining: self.drain.is_draining(),
            }),
            queue: Some(self.items.status()),
            ..together
        }))
    }
}
