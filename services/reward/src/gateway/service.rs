//! The gRPC API of a gateway: that of a worker, with every item judged elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_proto::v1::reward_server::Reward;
use evenkeel_proto::v1::{
    InvalidReason, RewardGetStatusRequest, RewardGetStatusResponse, Verdict, VerifyItem, VerifyOneRequest,
    VerifyOneResponse, VerifyRequest,
};
use evenkeel_rpc::dispatch::{DispatchError, Dispatcher};
use evenkeel_rpc::error::millis;
use evenkeel_rpc::items::{DispatchItems, Disposition, ItemContext, ItemServer, Items, ResponseStream, VerifyItems};
use evenkeel_rpc::server::{Drain, ServerInfo};
use tonic::{Request, Response, Status, Streaming};

use super::status::Workers;

/// Attempts at an item: its clients notice nothing of a worker that was lost or failed.
const MAX_ATTEMPTS: u32 = 3;

pub(super) struct GatewayService {
    forwarder: Arc<Forwarder>,
    workers: Workers,
    items: ItemServer<VerifyItems>,
    info: ServerInfo,
}

/// Forwards items to workers.
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
        answer(id, self.dispatcher.call(item, MAX_ATTEMPTS).await.result)
    }
}

/// What the client of an item gets. An item that workers were lost with or failed with has been tried often enough, and
/// its client is told not to send it again.
fn answer(id: String, result: Result<Verdict, DispatchError>) -> Verdict {
    match result {
        Ok(verdict) if VerifyItems::disposition(&verdict) == Disposition::Failed => {
            let detail = verdict.reason_with_detail();
            let worker = verdict.worker;
            Verdict { worker, ..Verdict::invalid(id, InvalidReason::AttemptsExhausted, detail) }
        }
        Ok(verdict) => Verdict { id, ..verdict },
        Err(error @ (DispatchError::WorkerLost { .. } | DispatchError::UnexpectedId { .. })) => {
            Verdict::invalid(id, InvalidReason::AttemptsExhausted, error.to_string())
        }
        Err(error) => VerifyItems::failed(id, error.failure()),
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

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::Outcome;
    use evenkeel_rpc::dispatch::DisconnectReason;

    use super::*;

    #[test]
    fn an_item_that_was_tried_often_enough_is_not_to_be_sent_again() {
        let defect = Verdict::invalid("3", InvalidReason::Internal, "a panic");
        let lost = DispatchError::WorkerLost { id: "3".to_owned(), attempts: 3, last: DisconnectReason::Unresponsive };
        for (result, detail) in [(Ok(defect), "internal: a panic"), (Err(lost), "was lost with its worker 3 times")] {
            let verdict = answer("a".to_owned(), result);
            assert_eq!((verdict.id.as_str(), verdict.invalid_reason()), ("a", InvalidReason::AttemptsExhausted));
            assert!(verdict.detail.contains(detail), "{}", verdict.detail);
            assert_eq!(VerifyItems::disposition(&verdict), Disposition::Final);
        }
    }

    #[test]
    fn a_verdict_that_stands_and_one_that_others_may_give_pass_unchanged() {
        let judged = Verdict::judged("3", Outcome::Correct, "equal", 1.0);
        let full = Verdict::invalid("3", InvalidReason::Overloaded, "");
        for verdict in [judged, full] {
            assert_eq!(answer("a".to_owned(), Ok(verdict.clone())), Verdict { id: "a".to_owned(), ..verdict });
        }
    }
}
