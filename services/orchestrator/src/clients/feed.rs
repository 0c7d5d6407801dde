//! What a training step is fed with: kept until its report is in, so that it can be sent again over another connection.

use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_proto::v1::TrainRequest;
use futures_util::Stream;
use tokio::sync::watch;

/// Messages of one training step, in order. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    messages: Arc<Mutex<Vec<TrainRequest>>>,
    /// How many there are, and whether there will be no more.
    filled: watch::Sender<(usize, bool)>,
}

impl Feed {
    /// Begins with the header.
    pub(crate) fn new(header: impl Into<TrainRequest>) -> Self {
        Self { messages: Arc::new(Mutex::new(vec![header.into()])), filled: watch::Sender::new((1, false)) }
    }

    pub(crate) fn push(&self, message: impl Into<TrainRequest>) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.push(message.into());
        self.filled.send_modify(|(count, _)| *count = messages.len());
    }

    /// Nothing follows.
    pub(crate) fn close(&self) {
        self.filled.send_modify(|(_, closed)| *closed = true);
    }

    pub(super) fn watch(&self) -> watch::Receiver<(usize, bool)> {
        self.filled.subscribe()
    }

    /// All messages from the first on, as they come.
    pub(super) fn stream(&self) -> impl Stream<Item = TrainRequest> + Send + use<> {
        let (messages, filled) = (Arc::clone(&self.messages), self.filled.subscribe());
        futures_util::stream::unfold((messages, filled, 0), |(messages, mut filled, next)| async move {
            let ready = filled.wait_for(|(count, closed)| *count > next || *closed).await.ok()?.0 > next;
            if !ready {
                return None;
            }
            let message = messages.lock().unwrap_or_else(PoisonError::into_inner).get(next).cloned()?;
            Some((message, (messages, filled, next + 1)))
        })
    }
}
