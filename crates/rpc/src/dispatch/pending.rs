//! An item that was handed over.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;

use super::DispatchError;
use super::actor::Command;
use super::board::Submission;
use crate::items::Items;

/// The answer to come. Dropping it takes the item back and frees its place.
#[must_use = "dropping it takes the item back"]
pub struct Pending<P: Items> {
    ticket: u64,
    reply: oneshot::Receiver<Result<P::Answer, DispatchError>>,
    commands: mpsc::UnboundedSender<Command<P>>,
    answered: bool,
}

impl<P: Items> Pending<P> {
    pub(super) fn submit(
        commands: &mpsc::UnboundedSender<Command<P>>,
        item: P::Item,
        budget: Duration,
        place: OwnedSemaphorePermit,
    ) -> Result<Self, DispatchError> {
        static TICKETS: AtomicU64 = AtomicU64::new(0);
        let ticket = TICKETS.fetch_add(1, Ordering::Relaxed);
        let submitted = Instant::now();
        let (sender, reply) = oneshot::channel();
        let submission = Submission { ticket, item, submitted, budget, reply: sender, place };
        commands.send(Command::Submit(Box::new(submission))).map_err(|_| DispatchError::Closed)?;
        Ok(Self { ticket, reply, commands: commands.clone(), answered: false })
    }
}

impl<P: Items> Future for Pending<P> {
    type Output = Result<P::Answer, DispatchError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.reply).poll(cx));
        self.answered = true;
        Poll::Ready(answer.unwrap_or(Err(DispatchError::Closed)))
    }
}

impl<P: Items> Drop for Pending<P> {
    fn drop(&mut self) {
        if !self.answered {
            // Where nobody receives it, nothing is left to be taken back.
            let _ = self.commands.send(Command::Withdraw(self.ticket));
        }
    }
}
