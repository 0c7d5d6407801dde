//! `Learner.Score` as a stream of items.

use evenkeel_proto::v1::{Failure, ScoreItem, ScoreRequest, ScoreResponse, score_request};

use super::{Incoming, Items};

/// Scoring: items are [`ScoreItem`], answers [`ScoreResponse`]. The client sends a whole batch and needs no dispatcher.
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

    fn traceparent(item: &ScoreItem) -> &str {
        &item.traceparent
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
}
