//! `Reward.Verify` as a stream of items, and `Reward.VerifyOne`.

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_proto::v1::{
    CancelItem, CodeTask, CodeTest, Failure, FailureCode, InvalidReason, Verdict, VerifyItem, VerifyOneRequest,
    VerifyOneResponse, VerifyRequest, code_task::TestsSource, verify_item, verify_request,
};
use prost::Message;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{DispatchItems, Disposition, Incoming, ItemContext, ItemServer, Items};
use crate::client::ClientChannel;
use crate::deadline::Deadline;
use crate::error::{Reason, ServiceError};

/// Verification: items are [`VerifyItem`], answers [`Verdict`].
#[derive(Debug, Clone, Copy)]
pub struct VerifyItems;

impl Items for VerifyItems {
    const NAME: &'static str = "verify";
    type Item = VerifyItem;
    type Request = VerifyRequest;
    type Response = Verdict;

    fn id(item: &VerifyItem) -> &str {
        &item.id
    }

    fn deadline_ms(item: &VerifyItem) -> Option<u64> {
        item.deadline_ms
    }

    /// A test or a gold answer without text is two bytes of a message and a structure in memory.
    fn held_bytes(item: &VerifyItem) -> usize {
        let structures = match &item.task {
            Some(verify_item::Task::Code(CodeTask { tests_source: Some(TestsSource::Tests(tests)), .. })) => {
                tests.tests.len() * size_of::<CodeTest>()
            }
            Some(verify_item::Task::Math(task)) => task.alternatives.len() * size_of::<String>(),
            _ => 0,
        };
        size_of::<VerifyItem>() + item.encoded_len() + structures
    }

    fn traceparent(item: &VerifyItem) -> &str {
        &item.traceparent
    }

    fn incoming(request: VerifyRequest) -> Incoming<VerifyItem> {
        match request.kind {
            Some(verify_request::Kind::Item(item)) => Incoming::Item(item),
            Some(verify_request::Kind::Cancel(cancel)) => Incoming::Cancel(cancel.id),
            None => Incoming::Neither,
        }
    }

    fn response_id(verdict: &Verdict) -> &str {
        &verdict.id
    }

    /// Failures of the stream are never the sample's own: the verdict is INVALID.
    fn failed(id: String, failure: Failure) -> Verdict {
        let reason = match failure.code() {
            FailureCode::InvalidArgument => InvalidReason::BadRequest,
            FailureCode::ResourceExhausted => InvalidReason::Overloaded,
            FailureCode::Unavailable if failure.reason.parse() == Ok(Reason::Draining) => InvalidReason::Draining,
            FailureCode::Unavailable => InvalidReason::WorkerLost,
            FailureCode::DeadlineExceeded => InvalidReason::Deadline,
            FailureCode::Cancelled => InvalidReason::Cancelled,
            FailureCode::Unimplemented => InvalidReason::Unimplemented,
            FailureCode::Unspecified
            | FailureCode::FailedPrecondition
            | FailureCode::NotFound
            | FailureCode::Internal => InvalidReason::Internal,
        };
        Verdict { violations: failure.violations, ..Verdict::invalid(id, reason, failure.message) }
    }
}

impl DispatchItems for VerifyItems {
    fn set_deadline_ms(item: &mut VerifyItem, deadline_ms: u64) {
        item.deadline_ms = Some(deadline_ms);
    }

    fn request(item: VerifyItem) -> VerifyRequest {
        item.into()
    }

    fn cancel(id: &str) -> VerifyRequest {
        CancelItem::new(id).into()
    }

    fn disposition(verdict: &Verdict) -> Disposition {
        match verdict.invalid_reason() {
            _ if verdict.is_valid() => Disposition::Final,
            InvalidReason::Overloaded => Disposition::Overloaded { retry_after_ms: None },
            InvalidReason::Draining => Disposition::Draining,
            InvalidReason::Internal | InvalidReason::WorkerLost => Disposition::Failed,
            _ => Disposition::Final,
        }
    }

    async fn open(
        channel: ClientChannel,
        max_message: usize,
        requests: ReceiverStream<VerifyRequest>,
    ) -> Result<Streaming<Verdict>, Status> {
        let client = RewardClient::new(channel);
        let mut client = client.max_decoding_message_size(max_message).max_encoding_message_size(max_message);
        Ok(client.verify(requests).await?.into_inner())
    }
}

impl ItemServer<VerifyItems> {
    /// `Reward.VerifyOne`: judges the item of a unary call, under the same limits as those of streams.
    ///
    /// # Errors
    /// A request without an item.
    pub async fn verify_one<H, F>(
        &self,
        request: Request<VerifyOneRequest>,
        handler: H,
    ) -> Result<Response<VerifyOneResponse>, Status>
    where
        H: FnOnce(VerifyItem, ItemContext) -> F,
        F: Future<Output = Verdict>,
    {
        let call = Deadline::of_call(request.metadata());
        let item = request.into_inner().item;
        let item = item.ok_or_else(|| ServiceError::from(FieldError::missing("item", "an item to judge")))?;
        let verdict = self.serve_one(item, call, handler).await;
        Ok(Response::new(VerifyOneResponse { verdict: Some(verdict) }))
    }
}
