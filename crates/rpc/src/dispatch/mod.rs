//! The client's end of item streams, over many workers.
//!
//! A [`Dispatcher`] holds one stream to each worker and gives every item to the worker with the least outstanding work. Workers
//! are a list of endpoints or the addresses behind a DNS name, which is asked again and again, so that workers may come and go.
//! What a lost worker had is given to another under the same id; every item is answered exactly once, whatever happens. Callers
//! wait while everything is full, and dropping what they wait for takes the item back from the worker.

mod actor;
mod board;
mod discovery;
mod link;
mod options;
mod pending;
mod slots;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::Failure;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::client::Connector;
use crate::error::{ServiceError, millis};
use crate::items::Items;

pub use discovery::{Endpoints, Resolve, SystemResolver};
pub use options::{DeadlineStart, DispatchOptions};
pub use pending::Pending;

use actor::Command;

/// Why an item has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DispatchError {
    /// Every worker that had it was lost.
    #[error("item `{id}` was lost with its worker {attempts} times, last: {last}")]
    WorkerLost {
        /// The item.
        id: String,
        /// How often it was begun.
        attempts: u32,
        /// Why the last worker was lost.
        last: String,
    },
    /// Its deadline ended first.
    #[error("the deadline of item `{id}` ended after {waited_ms} ms")]
    Deadline {
        /// The item.
        id: String,
        /// How long it waited.
        waited_ms: u64,
    },
    /// An item of the same id is not answered yet.
    #[error("item `{id}` is in work already")]
    InWork {
        /// The item.
        id: String,
    },
    /// The item has no id.
    #[error("an item without id cannot be answered")]
    NoId,
    /// The dispatcher has ended.
    #[error("the dispatcher has ended")]
    Closed,
}

impl DispatchError {
    /// The same as the failure of an item, for callers that answer items themselves.
    pub fn failure(&self) -> Failure {
        let message = self.to_string();
        match self {
            Self::WorkerLost { .. } => ServiceError::Unavailable { reason: "WORKER_LOST", message },
            Self::Deadline { waited_ms, .. } => ServiceError::Deadline(Duration::from_millis(*waited_ms)),
            Self::InWork { .. } | Self::NoId => ServiceError::Precondition { reason: "DUPLICATE_ID", message },
            Self::Closed => ServiceError::Cancelled,
        }
        .failure()
    }
}

/// One worker as the dispatcher sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerStatus {
    /// Its URL.
    pub name: String,
    /// Its stream stands.
    pub connected: bool,
    /// Items that it has and has not answered.
    pub outstanding: usize,
    /// Items that it answered.
    pub answered: u64,
    /// Why its stream was lost last; empty where it never was.
    pub last_error: String,
}

/// Gives items to workers. Clones are the same; it ends when the last clone and the last pending item are dropped.
pub struct Dispatcher<P: Items> {
    commands: mpsc::UnboundedSender<Command<P>>,
    places: Arc<Semaphore>,
    capacity: usize,
    default_deadline: Duration,
    connected: watch::Receiver<usize>,
}

impl<P: Items> Clone for Dispatcher<P> {
    fn clone(&self) -> Self {
        Self {
            commands: self.commands.clone(),
            places: Arc::clone(&self.places),
            capacity: self.capacity,
            default_deadline: self.default_deadline,
            connected: self.connected.clone(),
        }
    }
}

impl<P: Items> Dispatcher<P> {
    /// Starts to connect. Workers that cannot be reached yet are retried until they can.
    pub fn start(options: &DispatchOptions, endpoints: Endpoints, connector: Connector) -> Self {
        let capacity = options.max_pending.clamp(1, Semaphore::MAX_PERMITS);
        let (commands, receiver) = mpsc::unbounded_channel();
        let (count, connected) = watch::channel(0);
        tokio::spawn(actor::Actor::<P>::new(options.clone(), connector, count).run(receiver, endpoints));
        Self {
            commands,
            places: Arc::new(Semaphore::new(capacity)),
            capacity,
            default_deadline: options.item_deadline,
            connected,
        }
    }

    /// The answer to an item. Dropping the future takes the item back.
    pub async fn call(&self, item: P::Item) -> Result<P::Answer, DispatchError> {
        self.submit(item).await?.await
    }

    /// Hands an item over, as soon as there is a place for it. Waiting is the back-pressure: whoever submits in a loop goes as
    /// fast as the workers.
    pub async fn submit(&self, item: P::Item) -> Result<Pending<P>, DispatchError> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| DispatchError::Closed)?;
        self.hand_over(item, place)
    }

    fn hand_over(&self, item: P::Item, place: tokio::sync::OwnedSemaphorePermit) -> Result<Pending<P>, DispatchError> {
        if P::id(&item).is_empty() {
            return Err(DispatchError::NoId);
        }
        let budget = P::deadline_ms(&item).map_or(self.default_deadline, Duration::from_millis);
        Pending::submit(&self.commands, item, budget, place)
    }

    /// Items handed over and not answered yet.
    pub fn pending(&self) -> usize {
        self.capacity - self.places.available_permits()
    }

    /// Whether any worker is connected.
    pub fn is_connected(&self) -> bool {
        *self.connected.borrow() > 0
    }

    /// Waits until that many workers are connected, at most that long. False where they were not.
    pub async fn ready(&self, workers: usize, within: Duration) -> bool {
        let mut connected = self.connected.clone();
        let enough = connected.wait_for(|&count| count >= workers);
        matches!(tokio::time::timeout(within, enough).await, Ok(Ok(_)))
    }

    /// Every worker that is known, by name.
    pub async fn workers(&self) -> Vec<WorkerStatus> {
        let (reply, status) = oneshot::channel();
        let _ = self.commands.send(Command::Status(reply));
        status.await.unwrap_or_default()
    }
}

/// Time that is left, as a `deadline_ms`; at least 1, since 0 has passed.
fn left_ms(deadline: tokio::time::Instant, now: tokio::time::Instant) -> u64 {
    millis(deadline.saturating_duration_since(now)).max(1)
}
