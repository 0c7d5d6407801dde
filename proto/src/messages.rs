//! Short ways to write the `oneof` messages of the streams.

use crate::v1::{
    CancelItem, GenerateItem, GenerateRequest, ScoreItem, ScoreRequest, SupervisedBatch, TrainAccepted, TrainEvent,
    TrainGroup, TrainHeader, TrainProgress, TrainReport, TrainRequest, VerifyItem, VerifyRequest, generate_request,
    score_request, train_event, train_request, verify_request,
};

macro_rules! into_kind {
    ($($from:ident => $message:ident, $module:ident::$variant:ident;)+) => {
        $(impl From<$from> for $message {
            fn from(part: $from) -> Self {
                Self { kind: Some($module::Kind::$variant(part)) }
            }
        })+
    };
}

into_kind! {
    GenerateItem => GenerateRequest, generate_request::Item;
    CancelItem => GenerateRequest, generate_request::Cancel;
    VerifyItem => VerifyRequest, verify_request::Item;
    CancelItem => VerifyRequest, verify_request::Cancel;
    ScoreItem => ScoreRequest, score_request::Item;
    CancelItem => ScoreRequest, score_request::Cancel;
    TrainHeader => TrainRequest, train_request::Header;
    TrainGroup => TrainRequest, train_request::Group;
    SupervisedBatch => TrainRequest, train_request::Examples;
    TrainAccepted => TrainEvent, train_event::Accepted;
    TrainProgress => TrainEvent, train_event::Progress;
    TrainReport => TrainEvent, train_event::Report;
}

impl CancelItem {
    /// Takes back the item of that id.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_and_its_cancel_are_requests() {
        let item = VerifyItem { id: "a".into(), ..VerifyItem::default() };
        assert_eq!(VerifyRequest::from(item.clone()).kind, Some(verify_request::Kind::Item(item)));
        let cancel = VerifyRequest::from(CancelItem::new("a"));
        assert!(matches!(cancel.kind, Some(verify_request::Kind::Cancel(CancelItem { id })) if id == "a"));
    }
}
