//! Streams of items: one call carries thousands of them, so that id, deadline, cancellation and failure belong to the item.
//!
//! [`Items`] says how the messages of one such stream are read; [`ItemServer`] is the server's end of all of them, and
//! [`crate::dispatch::Dispatcher`] the client's.

mod answers;
mod capacity;
mod context;
mod generate;
mod score;
mod server;
mod stream;
mod turns;
mod verify;

use std::future::Future;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::Failure;
use prost::Message;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::client::ClientChannel;

pub use answers::AnswerStream;
pub use capacity::ItemLimits;
pub use context::{ItemContext, Stopped};
pub use generate::GenerateItems;
pub use score::ScoreItems;
pub use server::ItemServer;
pub use verify::VerifyItems;

/// What a message of the request stream is.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming<Item> {
    /// Something to be done and answered.
    Item(Item),
    /// The id of an item that is taken back.
    Cancel(String),
    /// Neither, which breaks the protocol.
    Neither,
}

/// What a client does with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// It is the answer.
    Final,
    /// The worker failed at it; another may not. Counts as an attempt.
    Failed,
    /// The worker is full: elsewhere, or later. Does not count as an attempt.
    Overloaded {
        /// When the worker wants to be asked again, in milliseconds. `None` where it does not say.
        retry_after_ms: Option<u64>,
    },
    /// The worker is about to end. Does not count as an attempt.
    Draining,
}

/// One kind of item stream.
pub trait Items: Sized + Send + Sync + 'static {
    /// Name for metrics and messages.
    const NAME: &'static str;
    /// One thing to be done.
    type Item: Message + Clone + 'static;
    /// A message of the request stream.
    type Request: Send + 'static;
    /// A message of the response stream, the answer to one item.
    type Answer: Message + 'static;

    /// The item's id.
    fn id(item: &Self::Item) -> &str;
    /// Milliseconds that the item may take.
    fn deadline_ms(item: &Self::Item) -> Option<u64>;
    /// The item with another deadline, since some of its time has passed.
    fn set_deadline_ms(item: &mut Self::Item, deadline_ms: u64);
    /// Bytes of memory that the item holds.
    fn held_bytes(item: &Self::Item) -> usize {
        size_of::<Self::Item>() + item.encoded_len()
    }
    /// The item's place in its trace; empty where it has none.
    fn traceparent(item: &Self::Item) -> &str;

    /// The item as a message.
    fn request(item: Self::Item) -> Self::Request;
    /// The cancel of an item as a message.
    fn cancel(id: &str) -> Self::Request;
    /// What a message is.
    fn incoming(request: Self::Request) -> Incoming<Self::Item>;

    /// The id of the item that an answer is to.
    fn answered(answer: &Self::Answer) -> &str;
    /// The answer that says why there is no result.
    fn failed(id: String, failure: Failure) -> Self::Answer;
    /// What a client does with an answer.
    fn disposition(answer: &Self::Answer) -> Disposition;

    /// Opens the stream.
    fn open(
        channel: ClientChannel,
        max_message: usize,
        requests: ReceiverStream<Self::Request>,
    ) -> impl Future<Output = Result<Streaming<Self::Answer>, Status>> + Send;
}

/// Why a message of the request stream ends the whole call: there is no id that it could be answered under.
fn check_id(field: &str, id: &str) -> Result<(), FieldError> {
    if id.is_empty() {
        Err(FieldError::missing(field, "an id that no other unanswered item of the stream has"))
    } else {
        Ok(())
    }
}

/// [`Disposition`] of a failure.
fn disposition_of(failure: &Failure) -> Disposition {
    use evenkeel_proto::v1::FailureCode;
    match failure.code() {
        FailureCode::ResourceExhausted => Disposition::Overloaded { retry_after_ms: failure.retry_after_ms },
        FailureCode::Unavailable if failure.reason == "DRAINING" => Disposition::Draining,
        FailureCode::Unavailable | FailureCode::Internal => Disposition::Failed,
        _ => Disposition::Final,
    }
}
