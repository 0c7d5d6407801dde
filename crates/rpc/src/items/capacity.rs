//! The capacity of a server for one kind of items: how many it holds, their memory, how many run.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_config::ByteSize;
use evenkeel_proto::v1::QueueStatus;
use tokio::sync::Semaphore;

use super::Items;
use crate::admission::{Admission, ClientId, Reservation, Unit};
use crate::error::ServiceError;
use crate::server::Drain;

/// Limits of a server over all streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemLimits {
    /// Items that may wait or run; a further one is answered RESOURCE_EXHAUSTED.
    pub max_items: usize,
    /// Memory for those items and for answers that are not read yet. Not below the largest message, which could never
    /// be taken.
    pub max_memory: ByteSize,
    /// Items that may run; the others wait in the order in which they came.
    pub max_running: usize,
    /// How long a stopped handler may take to respond with a partial result.
    pub grace: Duration,
}

impl ItemLimits {
    /// Default of [`Self::max_memory`].
    pub const DEFAULT_MEMORY: ByteSize = ByteSize::mib(512);
}

/// The capacity of one server for one kind of items. Clones share it.
pub(super) struct Capacity<P> {
    items: Admission,
    pub(super) bytes: Admission,
    pub(super) running: Arc<Semaphore>,
    pub(super) in_flight: Arc<AtomicUsize>,
    pub(super) grace: Duration,
    pub(super) drain: Drain,
    protocol: PhantomData<fn() -> P>,
}

impl<P> Clone for Capacity<P> {
    fn clone(&self) -> Self {
        Self {
            items: self.items.clone(),
            bytes: self.bytes.clone(),
            running: Arc::clone(&self.running),
            in_flight: Arc::clone(&self.in_flight),
            grace: self.grace,
            drain: self.drain.clone(),
            protocol: PhantomData,
        }
    }
}

impl<P: Items> Capacity<P> {
    pub(super) fn new(limits: ItemLimits, drain: Drain) -> Self {
        Self {
            items: Admission::new(P::NAME, Unit::Items, limits.max_items),
            bytes: Admission::new(P::NAME, Unit::Bytes, limits.max_memory.bytes_usize()),
            running: Arc::new(Semaphore::new(limits.max_running.clamp(1, Semaphore::MAX_PERMITS))),
            in_flight: Arc::new(AtomicUsize::new(0)),
            grace: limits.grace,
            drain,
            protocol: PhantomData,
        }
    }

    /// Reserves a place and the memory of an item.
    pub(super) fn admit(&self, client: ClientId, item: &P::Item) -> Result<[Reservation; 2], ServiceError> {
        Ok([self.items.try_reserve(client, 1)?, self.bytes.try_reserve(client, P::held_bytes(item))?])
    }

    pub(super) fn status(&self) -> QueueStatus {
        self.items.status(self.in_flight.load(Ordering::Relaxed))
    }
}
