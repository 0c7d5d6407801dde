//! `Learner.Score` as a stream of items.

use evenkeel_proto::v1::learner_client::LearnerClient;
use evenkeel_proto::v1::{CancelItem, Failure, ScoreItem, ScoreRequest, ScoreResponse, score_request};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::{Disposition, Incoming, Items, disposition_of};
use crate::client::ClientChannel;

/// Scoring: items are [`ScoreItem`], answers [`ScoreResponse`].
#[derive(Debug, Clone, Copy)]
pub struct ScoreItems;

impl Items for ScoreItems {
    const NAME: &'static str = "score";
    type Item = ScoreItem;
    type Request = ScoreRequest;
    type Response = ScoreResponse;

    fn id(item: &ScoreItem) -> &str {
        &item.id
    }

    fn deadline_ms(item: &ScoreItem) -> Option<u64> {
        item.deadline_ms
    }

    fn set_deadline_ms(item: &mut ScoreItem, deadline_ms: u64) {
        item.deadline_ms = Some(deadline_ms);
    }

    fn traceparent(item: &ScoreItem) -> &str {
        &item.traceparent
    }

    fn request(item: ScoreItem) -> ScoreRequest {
        item.into()
    }

    fn cancel(id: &str) -> ScoreRequest {
        CancelItem::new(id).into()
    }

    fn incoming(request: ScoreRequest) -> Incoming<ScoreItem> {
        match request.kind {
            Some(score_request::Kind::Item(item)) => Incoming::Item(item),
            Some(score_request::Kind::Cancel(cancel)) => Incoming::Cancel(cancel.id),
            None => Incoming::Neither,
        }
    }

    fn response_id(response: &ScoreResponse) -> &str {
        &response.id
    }

    fn failed(id: String, failure: Failure) -> ScoreResponse {
        ScoreResponse { id, failure: Some(failure), ..ScoreResponse::default() }
    }

    fn disposition(response: &ScoreResponse) -> Disposition {
        response.failure.as_ref().map_or(Disposition::Final, disposition_of)
    }

    async fn open(
        channel: ClientChannel,
        max_message: usize,
        requests: ReceiverStream<ScoreRequest>,
    ) -> Result<Streaming<ScoreResponse>, Status> {
        let client = LearnerClient::new(channel);
        let mut client = client.max_decoding_message_size(max_message).max_encoding_message_size(max_message);
        Ok(client.score(requests).await?.into_inner())
    }
}
