//! The responses of one stream that its client has not read yet. Each stream has its own buffer, so that a client that
//! does not read blocks only its own stream.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use prost::Message;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_stream::Stream;
use tonic::Status;

use crate::admission::Reservation;

/// Unread responses at which the stream accepts no more items.
const MAX_UNREAD: usize = 1024;
/// Bytes that may be unread.
const MAX_UNREAD_BYTES: u64 = 4 << 20;
/// How long a stream may go unread before it is aborted.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(120);

/// The response stream of an item call.
pub struct ResponseStream<A>(Arc<ResponseQueue<A>>);

/// The sending side. Clones share the stream.
pub(super) struct ResponseSender<A>(Arc<ResponseQueue<A>>);

struct ResponseQueue<A> {
    queue: Mutex<Queue<A>>,
    changed: Notify,
}

struct Queue<A> {
    /// Each with the bytes that it counts as.
    unread: VecDeque<(u64, Result<A, Status>)>,
    bytes: Reservation,
    reader: Option<Waker>,
    /// When a response was read last, or the oldest unread one was sent.
    progress: Instant,
    ended: bool,
    closed: bool,
}

impl<A> Queue<A> {
    fn has_capacity(&self) -> bool {
        self.unread.len() < MAX_UNREAD && self.bytes.amount() < MAX_UNREAD_BYTES
    }

    fn resize(&mut self, change: impl FnOnce(u64) -> u64) {
        let bytes = change(self.bytes.amount());
        self.bytes.resize(bytes);
    }
}

impl<A> ResponseQueue<A> {
    fn queue(&self) -> MutexGuard<'_, Queue<A>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Queue<A>)) {
        let reader = {
            let mut queue = self.queue();
            change(&mut queue);
            queue.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
        self.changed.notify_waiters();
    }
}

impl<A> Clone for ResponseSender<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A> ResponseSender<A> {
    /// Sender and stream of responses. `bytes`: an empty reservation of the budget that unread responses count against.
    pub(super) fn channel(bytes: Reservation) -> (Self, ResponseStream<A>) {
        let queue = Queue {
            unread: VecDeque::new(),
            bytes,
            reader: None,
            progress: Instant::now(),
            ended: false,
            closed: false,
        };
        let shared = Arc::new(ResponseQueue { queue: Mutex::new(queue), changed: Notify::new() });
        (Self(Arc::clone(&shared)), ResponseStream(shared))
    }

    /// Ends the stream after the responses that were sent.
    pub(super) fn end(&self) {
        self.0.change(|queue| queue.ended = true);
    }

    /// Ends the stream with this status and drops unread responses.
    pub(super) fn abort(&self, status: Status) {
        self.0.change(|queue| {
            queue.unread.clear();
            queue.unread.push_back((0, Err(status)));
            queue.resize(|_| 0);
            queue.ended = true;
        });
    }

    /// Completes when the stream may accept an item.
    pub(super) async fn has_capacity(&self) {
        self.when(Queue::has_capacity).await;
    }

    /// Completes when every response was read.
    pub(super) async fn all_read(&self) {
        self.when(|queue| queue.unread.is_empty()).await;
    }

    /// Completes when the client has closed the stream.
    pub(super) async fn closed(&self) {
        self.when(|queue| queue.closed).await;
    }

    /// Completes when no response was read for [`READ_TIMEOUT`].
    pub(super) async fn stalled(&self) {
        loop {
            let until = {
                let queue = self.0.queue();
                if queue.unread.is_empty() { Instant::now() } else { queue.progress }
            } + READ_TIMEOUT;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    async fn when(&self, holds: impl Fn(&Queue<A>) -> bool) {
        loop {
            let mut changed = pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if holds(&self.0.queue()) {
                return;
            }
            changed.await;
        }
    }
}

impl<A: Message> ResponseSender<A> {
    /// Sends a response. The buffer may exceed its limit by those of items that were already accepted.
    pub(super) fn send(&self, response: Result<A, Status>) {
        let bytes = response.as_ref().map_or(0, |response| size_of::<A>() + response.encoded_len()) as u64;
        self.0.change(|queue| {
            if queue.ended || queue.closed {
                return;
            }
            if queue.unread.is_empty() {
                queue.progress = Instant::now();
            }
            queue.unread.push_back((bytes, response));
            queue.resize(|before| before + bytes);
        });
    }
}

impl<A> Stream for ResponseStream<A> {
    type Item = Result<A, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut queue = self.0.queue();
        let Some((bytes, response)) = queue.unread.pop_front() else {
            if queue.ended {
                return Poll::Ready(None);
            }
            queue.reader = Some(context.waker().clone());
            return Poll::Pending;
        };
        queue.progress = Instant::now();
        queue.resize(|before| before.saturating_sub(bytes));
        drop(queue);
        self.0.changed.notify_waiters();
        Poll::Ready(Some(response))
    }
}

impl<A> Drop for ResponseStream<A> {
    fn drop(&mut self) {
        self.0.change(|queue| {
            queue.closed = true;
            queue.unread.clear();
            queue.resize(|_| 0);
        });
    }
}
