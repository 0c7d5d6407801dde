//! The server side of item streams: capacity, deadlines, cancellation, drain, and exactly one response for each item.

use std::future::Future;
use std::sync::Arc;

use evenkeel_proto::v1::QueueStatus;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::capacity::{Capacity, ItemLimits};
use super::stream::{ItemStream, run_item};
use super::{ItemContext, Items, ResponseStream};
use crate::deadline::Deadline;
use crate::error::ServiceError;
use crate::peer::ClientId;
use crate::series;
use crate::server::Drain;

/// Serves one kind of items. Clones share its capacity.
pub struct ItemServer<P>(Capacity<P>);

impl<P> Clone for ItemServer<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: Items> ItemServer<P> {
    /// A server of items with these limits; `drain` is the shutdown signal of the server.
    pub fn new(limits: ItemLimits, drain: Drain) -> Self {
        series::begin(series::ITEM_SERIES, P::NAME);
        Self(Capacity::new(limits, drain))
    }

    /// Serves one call. `handler` processes one item; it is dropped when the item is stopped. A panic fails only its
    /// item.
    pub fn serve<S, H, F>(&self, request: Request<S>, handler: H) -> Response<ResponseStream<P::Response>>
    where
        S: Stream<Item = Result<P::Request, Status>> + Send + Unpin + 'static,
        H: Fn(P::Item, ItemContext) -> F + Send + Sync + 'static,
        F: Future<Output = P::Response> + Send + 'static,
    {
        let call = Deadline::of_call(request.metadata());
        Response::new(ItemStream::start(self.0.clone(), request.into_inner(), call, Arc::new(handler)))
    }

    /// Processes one item outside of a stream, under the same limits.
    pub(super) async fn serve_one<H, F>(&self, item: P::Item, call: Deadline, handler: H) -> P::Response
    where
        H: FnOnce(P::Item, ItemContext) -> F,
        F: Future<Output = P::Response>,
    {
        let id = P::id(&item).to_owned();
        if self.0.drain.is_draining() {
            return P::failed(id, ServiceError::Draining.failure());
        }
        let client = ClientId::current();
        let _held = match self.0.admit(client, &item) {
            Ok(held) => held,
            Err(full) => return P::failed(id, full.failure()),
        };
        let deadline = call.and_item(P::deadline_ms(&item));
        run_item(&self.0, id, item, deadline, super::context::StopSignal::default(), handler).await
    }

    /// The state of its queue.
    pub fn status(&self) -> QueueStatus {
        self.0.status()
    }
}
