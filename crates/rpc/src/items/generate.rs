//! `Generation.Generate` as a stream of items.

use evenkeel_proto::v1::generation_client::GenerationClient;
use evenkeel_proto::v1::{
    CancelItem, Failure, FailureCode, FinishReason, GenerateItem, GenerateRequest, Rollout, generate_request,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::{DispatchItems, Disposition, Incoming, Items, disposition_of};
use crate::client::ClientChannel;

/// Generation: items are [`GenerateItem`], answers [`Rollout`].
#[derive(Debug, Clone, Copy)]
pub struct GenerateItems;

impl Items for GenerateItems {
    const NAME: &'static str = "generate";
    type Item = GenerateItem;
    type Request = GenerateRequest;
    type Response = Rollout;

    fn id(item: &GenerateItem) -> &str {
        &item.sample_id
    }

    fn deadline_ms(item: &GenerateItem) -> Option<u64> {
        item.deadline_ms
    }

    fn traceparent(item: &GenerateItem) -> &str {
        &item.traceparent
    }

    fn incoming(request: GenerateRequest) -> Incoming<GenerateItem> {
        match request.kind {
            Some(generate_request::Kind::Item(item)) => Incoming::Item(item),
            Some(generate_request::Kind::Cancel(cancel)) => Incoming::Cancel(cancel.id),
            None => Incoming::Neither,
        }
    }

    fn response_id(rollout: &Rollout) -> &str {
        &rollout.sample_id
    }

    fn failed(id: String, failure: Failure) -> Rollout {
        let finish_reason = match failure.code() {
            FailureCode::Cancelled => FinishReason::Cancelled,
            FailureCode::DeadlineExceeded => FinishReason::Deadline,
            _ => FinishReason::Failed,
        };
        Rollout { sample_id: id, finish_reason: finish_reason.into(), failure: Some(failure), ..Rollout::default() }
    }
}

impl DispatchItems for GenerateItems {
    fn set_deadline_ms(item: &mut GenerateItem, deadline_ms: u64) {
        item.deadline_ms = Some(deadline_ms);
    }

    fn request(item: GenerateItem) -> GenerateRequest {
        item.into()
    }

    fn cancel(id: &str) -> GenerateRequest {
        CancelItem::new(id).into()
    }

    fn disposition(rollout: &Rollout) -> Disposition {
        rollout.failure.as_ref().map_or(Disposition::Final, disposition_of)
    }

    async fn open(
        channel: ClientChannel,
        max_message: usize,
        requests: ReceiverStream<GenerateRequest>,
    ) -> Result<Streaming<Rollout>, Status> {
        let client = GenerationClient::new(channel);
        let mut client = client.max_decoding_message_size(max_message).max_encoding_message_size(max_message);
        Ok(client.generate(requests).await?.into_inner())
    }
}
