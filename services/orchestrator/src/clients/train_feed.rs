//! The messages of one training step. They are kept until its report is in, so that they can be sent again over another connection.

use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_proto::v1::TrainRequest;
use futures_util::Stream;
use tokio::sync::watch;

/// Messages of one training step, in order. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct TrainFeed {
    messages: Arc<Mutex<Vec<TrainRequest>>>,
    fill: watch::Sender<Fill>,
}

#[derive(Debug, Clone, Copy)]
struct Fill {
    messages: usize,
    /// No more will follow.
    closed: bool,
}

impl TrainFeed {
    /// Starts with the header.
    pub(crate) fn new(header: impl Into<TrainRequest>) -> Self {
        let fill = Fill { messages: 1, closed: false };
        Self { messages: Arc::new(Mutex::new(vec![header.into()])), fill: watch::Sender::new(fill) }
    }

    pub(crate) fn push(&self, message: impl Into<TrainRequest>) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.push(message.into());
        self.fill.send_modify(|fill| fill.messages = messages.len());
    }

    /// The step is complete. Without this the learner keeps nothing of it.
    pub(crate) fn close(&self) {
        self.fill.send_modify(|fill| fill.closed = true);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.fill.borrow().closed
    }

    /// Waits until the step is complete.
    pub(super) async fn closed(&self) {
        // This value holds a sender, so the wait cannot fail.
        let _ = self.fill.subscribe().wait_for(|fill| fill.closed).await;
    }

    /// All messages from the first on, as they come.
    pub(super) fn stream(&self) -> impl Stream<Item = TrainRequest> + Send + use<> {
        let (messages, fill) = (Arc::clone(&self.messages), self.fill.subscribe());
        futures_util::stream::unfold((messages, fill, 0), |(messages, mut fill, next)| async move {
            let ready = fill.wait_for(|fill| fill.messages > next || fill.closed).await.ok()?.messages > next;
            if !ready {
                return None;
            }
            let message = messages.lock().unwrap_or_else(PoisonError::into_inner).get(next).cloned()?;
            Some((message, (messages, fill, next + 1)))
        })
    }
}
