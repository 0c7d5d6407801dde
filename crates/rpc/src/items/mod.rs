//! Streams of items: one call carries thousands of items, each with its own id, deadline, cancellation and failure.
//!
//! [`Items`] describes the messages of one kind of stream for [`ItemServer`], the server side; [`DispatchItems`] what
//! [`crate::dispatch::Dispatcher`], the client side, needs besides.

mod capacity;
mod context;
mod generate;
mod responses;
mod score;
mod server;
mod stream;
mod verify;

use std::future::Future;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::Failure;
use prost::Message;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::client::ClientChannel;
use crate::error::Reason;

pub use capacity::ItemLimits;
pub use context::{ItemContext, StopReason};
pub use generate::GenerateItems;
pub use responses::ResponseStream;
pub use score::ScoreItems;
pub use server::ItemServer;
pub use verify::VerifyItems;

/// A message of the request stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming<Item> {
    Item(Item),
    /// The id of an item to cancel.
    Cancel(String),
    /// Neither, which violates the protocol.
    Neither,
}

/// What a client does with a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// The failure is the result.
    Final,
    /// The worker failed; another may succeed. Counts as an attempt.
    Failed,
    /// The worker is full: try another one, or later. Does not count as an attempt.
    Overloaded {
        /// Delay before the worker is tried again, in milliseconds. `None` if it gives none.
        retry_after_ms: Option<u64>,
    },
    /// The worker is shutting down. Does not count as an attempt.
    Draining,
}

/// One kind of item stream.
pub trait Items: Sized + Send + Sync + 'static {
    /// Name for metrics and messages.
    const NAME: &'static str;
    /// A unit of work.
    type Item: Message + Clone + 'static;
    /// A message of the request stream.
    type Request: Send + 'static;
    /// A message of the response stream: the result of one item.
    type Response: Message + 'static;

    fn id(item: &Self::Item) -> &str;
    /// Deadline of the item in milliseconds.
    fn deadline_ms(item: &Self::Item) -> Option<u64>;
    /// Memory of the item in bytes.
    fn held_bytes(item: &Self::Item) -> usize {
        size_of::<Self::Item>() + item.encoded_len()
    }
    /// The item's `traceparent`; empty if it has none.
    fn traceparent(item: &Self::Item) -> &str;

    fn incoming(request: Self::Request) -> Incoming<Self::Item>;

    /// The id of the item that a response belongs to.
    fn response_id(response: &Self::Response) -> &str;
    /// The response that reports a failure.
    fn failed(id: String, failure: Failure) -> Self::Response;
}

/// A kind of item stream whose client is a [`Dispatcher`](crate::dispatch::Dispatcher).
pub trait DispatchItems: Items {
    /// Replaces the deadline of an item, after some of it has passed.
    fn set_deadline_ms(item: &mut Self::Item, deadline_ms: u64);
    /// The item as a message.
    fn request(item: Self::Item) -> Self::Request;
    /// The cancellation of an item as a message.
    fn cancel(id: &str) -> Self::Request;
    /// What a client does with a response.
    fn disposition(response: &Self::Response) -> Disposition;

    fn open(
        channel: ClientChannel,
        max_message: usize,
        requests: ReceiverStream<Self::Request>,
    ) -> impl Future<Output = Result<Streaming<Self::Response>, Status>> + Send;
}

/// Refuses an empty id, which ends the whole call: no response could refer to the item.
fn validate_id(field: &str, id: &str) -> Result<(), FieldError> {
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
        FailureCode::Unavailable if failure.reason.parse() == Ok(Reason::Draining) => Disposition::Draining,
        FailureCode::Unavailable | FailureCode::Internal => Disposition::Failed,
        _ => Disposition::Final,
    }
}
