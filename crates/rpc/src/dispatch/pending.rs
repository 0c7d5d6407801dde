//! The future of a submitted item.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;

use super::actor::Command;
use super::backlog::QueuedItem;
use super::{DispatchError, Dispatched};
use crate::items::DispatchItems;

/// Resolves to the response, with the attempts that it took. Dropping it cancels the item and frees its permit.
#[must_use = "dropping it cancels the item"]
pub struct Pending<P: DispatchItems> {
    ticket: u64,
    reply: oneshot::Receiver<Dispatched<P::Response>>,
    commands: mpsc::UnboundedSender<Command<P>>,
    answered: bool,
}

impl<P: DispatchItems> Pending<P> {
    pub(super) fn submit(
        commands: &mpsc::UnboundedSender<Command<P>>,
        item: P::Item,
        budget: Duration,
        max_attempts: u32,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, DispatchError> {
        static TICKETS: AtomicU64 = AtomicU64::new(0);
        let ticket = TICKETS.fetch_add(1, Ordering::Relaxed);
        let submitted = Instant::now();
        let (sender, reply) = oneshot::channel();
        let queued = QueuedItem { ticket, item, submitted, budget, max_attempts, reply: sender, permit };
        commands.send(Command::Submit(Box::new(queued))).map_err(|_| DispatchError::Closed)?;
        Ok(Self { ticket, reply, commands: commands.clone(), answered: false })
    }
}

impl<P: DispatchItems> Future for Pending<P> {
    type Output = Dispatched<P::Response>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.reply).poll(cx));
        self.answered = true;
        Poll::Ready(answer.unwrap_or_else(|_| Dispatched::unsent(DispatchError::Closed)))
    }
}

impl<P: DispatchItems> Drop for Pending<P> {
    fn drop(&mut self) {
        if !self.answered {
            // If the dispatcher has ended, there is nothing to cancel.
            let _ = self.commands.send(Command::Cancel(self.ticket));
        }
    }
}
