//! What a server has for one kind of items: room for them and their bytes, turns to run, time to end.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_config::ByteSize;
use evenkeel_proto::v1::QueueStatus;

use super::Items;
use super::turns::Turns;
use crate::admission::{Admission, ClientId, Taken, Unit};
use crate::error::ServiceError;
use crate::server::Drain;

/// How much a server takes at once, over all streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemLimits {
    /// Items that may wait or be in work; one more is answered RESOURCE_EXHAUSTED.
    pub max_items: usize,
    /// Memory for those items and for answers that are not read yet. Not below the largest message, which could never be taken.
    pub max_memory: ByteSize,
    /// Items that may be in work. Their turns go round the clients that have some waiting.
    pub max_running: usize,
    /// How long a stopped handler may take to answer with what it has.
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
    pub(super) running: Turns,
    pub(super) in_work: Arc<AtomicUsize>,
    pub(super) grace: Duration,
    pub(super) drain: Drain,
    protocol: PhantomData<fn() -> P>,
}

impl<P> Clone for Capacity<P> {
    fn clone(&self) -> Self {
        Self {
            items: self.items.clone(),
            bytes: self.bytes.clone(),
            running: self.running.clone(),
            in_work: Arc::clone(&self.in_work),
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
            running: Turns::new(limits.max_running),
            in_work: Arc::new(AtomicUsize::new(0)),
            grace: limits.grace,
            drain,
            protocol: PhantomData,
        }
    }

    /// Room for an item and its bytes.
    pub(super) fn admit(&self, client: ClientId, item: &P::Item) -> Result<[Taken; 2], ServiceError> {
        Ok([self.items.try_take(client, 1)?, self.bytes.try_take(client, P::held_bytes(item))?])
    }

    pub(super) fn status(&self) -> QueueStatus {
        self.items.status(self.in_work.load(Ordering::Relaxed))
    }
}
