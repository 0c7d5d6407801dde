//! The answers of one stream on their way to its client. They wait in memory of their own, so that a client that does not read holds
//! up nothing but its own stream.

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

use crate::admission::Taken;

/// Answers that wait for the client to read them; with so many its stream takes no new items.
const MAX_UNREAD: usize = 1024;
/// Bytes of them.
const MAX_UNREAD_BYTES: u64 = 4 << 20;
/// A client that reads none of its answers for so long has lost its stream.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(120);

/// The response stream of an item call.
pub struct AnswerStream<A>(Arc<Shared<A>>);

/// Where answers are put. Clones are the same.
pub(super) struct Answers<A>(Arc<Shared<A>>);

struct Shared<A> {
    queue: Mutex<Queue<A>>,
    changed: Notify,
}

struct Queue<A> {
    /// With the bytes that each is counted as.
    unread: VecDeque<(u64, Result<A, Status>)>,
    bytes: Taken,
    reader: Option<Waker>,
    /// When something was read, or what is unread became so.
    progress: Instant,
    ended: bool,
    gone: bool,
}

impl<A> Queue<A> {
    fn has_room(&self) -> bool {
        self.unread.len() < MAX_UNREAD && self.bytes.amount() < MAX_UNREAD_BYTES
    }

    fn resize(&mut self, change: impl FnOnce(u64) -> u64) {
        let bytes = change(self.bytes.amount());
        self.bytes.resize(bytes);
    }
}

impl<A> Shared<A> {
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

impl<A> Clone for Answers<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A> Answers<A> {
    /// Both ends. `bytes` is nothing of the budget that unread answers count in.
    pub(super) fn channel(bytes: Taken) -> (Self, AnswerStream<A>) {
        let queue =
            Queue { unread: VecDeque::new(), bytes, reader: None, progress: Instant::now(), ended: false, gone: false };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), changed: Notify::new() });
        (Self(Arc::clone(&shared)), AnswerStream(shared))
    }

    /// Ends the stream, after what was sent.
    pub(super) fn end(&self) {
        self.0.change(|queue| queue.ended = true);
    }

    /// Ends the stream with this, and with nothing that is unread.
    pub(super) fn cut(&self, status: Status) {
        self.0.change(|queue| {
            queue.unread.clear();
            queue.unread.push_back((0, Err(status)));
            queue.resize(|_| 0);
            queue.ended = true;
        });
    }

    /// Ends when the stream may take new items.
    pub(super) async fn room(&self) {
        self.when(Queue::has_room).await;
    }

    /// Ends when everything was read.
    pub(super) async fn read(&self) {
        self.when(|queue| queue.unread.is_empty()).await;
    }

    /// Ends when there is nobody to read.
    pub(super) async fn gone(&self) {
        self.when(|queue| queue.gone).await;
    }

    /// Ends when answers have waited for too long without any being read.
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

impl<A: Message> Answers<A> {
    /// Puts an answer behind the others. It always fits: who takes items looks for room first.
    pub(super) fn send(&self, answer: Result<A, Status>) {
        let bytes = answer.as_ref().map_or(0, |answer| size_of::<A>() + answer.encoded_len()) as u64;
        self.0.change(|queue| {
            if queue.ended || queue.gone {
                return;
            }
            if queue.unread.is_empty() {
                queue.progress = Instant::now();
            }
            queue.unread.push_back((bytes, answer));
            queue.resize(|before| before + bytes);
        });
    }
}

impl<A> Stream for AnswerStream<A> {
    type Item = Result<A, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut queue = self.0.queue();
        let Some((bytes, answer)) = queue.unread.pop_front() else {
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
        Poll::Ready(Some(answer))
    }
}

impl<A> Drop for AnswerStream<A> {
    fn drop(&mut self) {
        self.0.change(|queue| {
            queue.gone = true;
            queue.unread.clear();
            queue.resize(|_| 0);
        });
    }
}
