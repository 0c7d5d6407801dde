//! The server's end of an item stream: places, deadlines, cancellation, drain, and exactly one answer for each item.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_proto::v1::QueueStatus;
use tokio_stream::Stream;
use tonic::Status;

use super::stream::Connection;
use super::turns::Turns;
use super::{AnswerStream, ItemContext, Items};
use crate::admission::{Admission, Taken, Unit};
use crate::deadline::Deadline;
use crate::error::ServiceError;
use crate::peer::ClientId;
use crate::server::Drain;

/// How much a server takes at once, over all streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemLimits {
    /// Items that may wait or be in work; one more is answered RESOURCE_EXHAUSTED.
    pub max_items: usize,
    /// Bytes of those items, and of answers that are not read yet. Not below the largest message, which could never be taken.
    pub max_bytes: usize,
    /// Items that may be in work. Their turns go round the clients that have some waiting.
    pub max_running: usize,
    /// How long a stopped handler may take to answer with what it has.
    pub grace: Duration,
}

impl ItemLimits {
    /// [`Self::max_bytes`] where nobody sets it.
    pub const MAX_BYTES: usize = 512 << 20;
}

/// The places of one server for one kind of items. Clones share them.
pub struct ItemServer<P> {
    places: Admission,
    pub(super) bytes: Admission,
    pub(super) running: Turns,
    pub(super) in_work: Arc<AtomicUsize>,
    pub(super) grace: Duration,
    pub(super) drain: Drain,
    protocol: std::marker::PhantomData<fn() -> P>,
}

impl<P> Clone for ItemServer<P> {
    fn clone(&self) -> Self {
        Self {
            places: self.places.clone(),
            bytes: self.bytes.clone(),
            running: self.running.clone(),
            in_work: Arc::clone(&self.in_work),
            grace: self.grace,
            drain: self.drain.clone(),
            protocol: std::marker::PhantomData,
        }
    }
}

impl<P: Items> ItemServer<P> {
    /// With these limits; `drain` is the server's.
    pub fn new(limits: ItemLimits, drain: Drain) -> Self {
        Self {
            places: Admission::new(P::NAME, Unit::Items, limits.max_items),
            bytes: Admission::new(P::NAME, Unit::Bytes, limits.max_bytes),
            running: Turns::new(limits.max_running),
            in_work: Arc::new(AtomicUsize::new(0)),
            grace: limits.grace,
            drain,
            protocol: std::marker::PhantomData,
        }
    }

    /// Answers one stream. `handler` does one item; it is dropped when the item is stopped. A handler that panics costs its item
    /// and nothing else.
    pub fn serve<S, H, F>(&self, requests: S, call: Deadline, handler: H) -> AnswerStream<P::Answer>
    where
        S: Stream<Item = Result<P::Request, Status>> + Send + Unpin + 'static,
        H: Fn(P::Item, ItemContext) -> F + Send + Sync + 'static,
        F: Future<Output = P::Answer> + Send + 'static,
    {
        Connection::start(self.clone(), requests, call, Arc::new(handler))
    }

    /// Answers one item outside of a stream, by the same places and limits.
    pub async fn serve_one<H, F>(&self, item: P::Item, call: Deadline, handler: H) -> P::Answer
    where
        H: FnOnce(P::Item, ItemContext) -> F,
        F: Future<Output = P::Answer>,
    {
        let id = P::id(&item).to_owned();
        if self.drain.is_draining() {
            return P::failed(id, ServiceError::Draining.failure());
        }
        let client = ClientId::current();
        let _held = match self.admit(client, &item) {
            Ok(held) => held,
            Err(full) => return P::failed(id, full.failure()),
        };
        let deadline = call.and_item(P::deadline_ms(&item));
        super::stream::work(self, client, id, item, deadline, super::context::Stop::default(), handler).await
    }

    /// A place for an item, and room for its bytes.
    pub(super) fn admit(&self, client: ClientId, item: &P::Item) -> Result<[Taken; 2], ServiceError> {
        Ok([self.places.try_take(client, 1)?, self.bytes.try_take(client, P::held_bytes(item))?])
    }

    /// The state of its places.
    pub fn status(&self) -> QueueStatus {
        self.places.status(self.in_work.load(Ordering::Relaxed))
    }
}
