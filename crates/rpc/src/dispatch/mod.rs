//! The client side of item streams, over many workers.
//!
//! A [`Dispatcher`] keeps one stream to each worker and assigns every item to the worker with the least outstanding
//! work. Workers are a list of endpoints, or the addresses behind a DNS name, which is resolved periodically. The items
//! of a lost worker go to others under the same ids; every item is answered exactly once. Callers wait while all
//! workers are full; dropping their future cancels the item.

mod actor;
mod answers;
mod backlog;
mod capacity;
mod connection;
mod disconnect;
mod discovery;
mod options;
mod pending;
mod scheduler;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::Failure;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::client::Connector;
use crate::error::{Reason, ServiceError, millis};
use crate::items::DispatchItems;

pub use disconnect::DisconnectReason;
pub use discovery::{Endpoints, Resolve, SystemResolver};
pub use options::{DeadlineStart, DispatchOptions};
pub use pending::Pending;

use actor::Command;

/// Why an item has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DispatchError {
    /// Every worker that had it was lost.
    #[error("item `{id}` was lost with its worker {attempts} times, last: {last}")]
    WorkerLost {
        id: String,
        attempts: u32,
        /// Why the last worker was lost.
        last: DisconnectReason,
    },
    /// The item's deadline passed.
    #[error("the deadline of item `{id}` expired after {waited_ms} ms")]
    Deadline {
        id: String,
        /// How long it waited.
        waited_ms: u64,
    },
    /// The worker answered under an id that it was not given.
    #[error("a worker answered item `{id}` as `{answered}`, an id that it was not given")]
    UnexpectedId {
        /// The item, as far as can be known.
        id: String,
        /// The id of the answer.
        answered: String,
    },
    /// An unanswered item has the same id.
    #[error("item `{id}` is already in flight")]
    InFlight { id: String },
    /// The item has no id.
    #[error("the item has no id")]
    NoId,
    /// The dispatcher has ended.
    #[error("the dispatcher has ended")]
    Closed,
}

impl DispatchError {
    /// The failure of an item that reports this, for servers that forward items.
    pub fn failure(&self) -> Failure {
        let message = self.to_string();
        match self {
            Self::WorkerLost { .. } => ServiceError::Unavailable { reason: Reason::WorkerLost, message },
            Self::UnexpectedId { .. } => ServiceError::Internal { message },
            Self::Deadline { waited_ms, .. } => ServiceError::Deadline(Duration::from_millis(*waited_ms)),
            Self::InFlight { .. } | Self::NoId => ServiceError::Precondition { reason: Reason::DuplicateId, message },
            Self::Closed => ServiceError::Cancelled,
        }
        .failure()
    }
}

/// How an item ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatched<R> {
    /// The response, or why there is none.
    pub result: Result<R, DispatchError>,
    /// How often a worker was given the item. An item that the worker refused because it is full or shutting down does
    /// not count.
    pub attempts: u32,
}

impl<R> Dispatched<R> {
    /// No worker was given the item.
    fn unsent(error: DispatchError) -> Self {
        Self { result: Err(error), attempts: 0 }
    }
}

/// One worker as the dispatcher sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerStatus {
    pub name: String,
    /// Whether its stream is open.
    pub connected: bool,
    /// Items that it has not answered.
    pub outstanding: usize,
    /// Items that it answered.
    pub answered: u64,
    /// Why its stream was lost last; `None` if it never was.
    pub last_error: Option<DisconnectReason>,
}

/// Assigns items to workers. Clones share its state; it ends when the last clone and the last pending item are dropped.
pub struct Dispatcher<P: DispatchItems> {
    commands: mpsc::UnboundedSender<Command<P>>,
    permits: Arc<Semaphore>,
    capacity: usize,
    default_deadline: Duration,
    connected: watch::Receiver<usize>,
}

impl<P: DispatchItems> Clone for Dispatcher<P> {
    fn clone(&self) -> Self {
        Self {
            commands: self.commands.clone(),
            permits: Arc::clone(&self.permits),
            capacity: self.capacity,
            default_deadline: self.default_deadline,
            connected: self.connected.clone(),
        }
    }
}

impl<P: DispatchItems> Dispatcher<P> {
    /// Starts to connect. Workers that cannot be reached yet are retried until they can.
    pub fn start(options: &DispatchOptions, endpoints: Endpoints, connector: Connector) -> Self {
        let capacity = options.max_pending.clamp(1, Semaphore::MAX_PERMITS);
        let (commands, receiver) = mpsc::unbounded_channel();
        let (count, connected) = watch::channel(0);
        tokio::spawn(actor::Actor::<P>::new(options.clone(), connector, count).run(receiver, endpoints));
        Self {
            commands,
            permits: Arc::new(Semaphore::new(capacity)),
            capacity,
            default_deadline: options.item_deadline,
            connected,
        }
    }

    /// The response to an item, for which workers are given it `max_attempts` times at most: with 2, once more after a
    /// worker was lost or failed. Dropping the future cancels the item.
    pub async fn call(&self, item: P::Item, max_attempts: u32) -> Dispatched<P::Response> {
        match self.submit(item, max_attempts).await {
            Ok(pending) => pending.await,
            Err(error) => Dispatched::unsent(error),
        }
    }

    /// Submits an item as [`Self::call`] does, once fewer than `max_pending` are unanswered. This wait is the
    /// backpressure.
    pub async fn submit(&self, item: P::Item, max_attempts: u32) -> Result<Pending<P>, DispatchError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| DispatchError::Closed)?;
        self.submit_with_permit(item, max_attempts, permit)
    }

    fn submit_with_permit(
        &self,
        item: P::Item,
        max_attempts: u32,
        permit: tokio::sync::OwnedSemaphorePermit,
    ) -> Result<Pending<P>, DispatchError> {
        if P::id(&item).is_empty() {
            return Err(DispatchError::NoId);
        }
        let budget = P::deadline_ms(&item).map_or(self.default_deadline, Duration::from_millis);
        Pending::submit(&self.commands, item, budget, max_attempts, permit)
    }

    /// Number of items that no worker has answered yet.
    pub fn pending(&self) -> usize {
        self.capacity - self.permits.available_permits()
    }

    /// Whether any worker is connected.
    pub fn is_connected(&self) -> bool {
        *self.connected.borrow() > 0
    }

    /// Waits until that many workers are connected; false if they were not within that time.
    pub async fn ready(&self, workers: usize, within: Duration) -> bool {
        let mut connected = self.connected.clone();
        let enough = connected.wait_for(|&count| count >= workers);
        matches!(tokio::time::timeout(within, enough).await, Ok(Ok(_)))
    }

    /// The state of all workers, sorted by name.
    pub async fn workers(&self) -> Vec<WorkerStatus> {
        let (reply, status) = oneshot::channel();
        let _ = self.commands.send(Command::Status(reply));
        status.await.unwrap_or_default()
    }
}

/// Remaining time as a `deadline_ms`; at least 1, since 0 would have passed.
fn left_ms(deadline: tokio::time::Instant, now: tokio::time::Instant) -> u64 {
    millis(deadline.saturating_duration_since(now)).max(1)
}
