//! The connection to one worker: opened, read and reopened after it was lost, until the worker is removed.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use super::{DisconnectReason, DispatchOptions};
use crate::client::{Connector, ServerAddress};
use crate::items::DispatchItems;
use crate::retry::RetryPolicy;

/// What happens on a connection.
pub(super) enum Event<P: DispatchItems> {
    /// The stream is open.
    Connected {
        worker: u64,
        requests: mpsc::Sender<P::Request>,
    },
    Response {
        worker: u64,
        response: P::Response,
    },
    /// The stream was lost, or could not be opened.
    Disconnected {
        worker: u64,
        reason: DisconnectReason,
    },
}

/// The connection to one worker.
pub(super) struct WorkerConnection<P: DispatchItems> {
    pub(super) worker: u64,
    pub(super) address: ServerAddress,
    pub(super) options: DispatchOptions,
    pub(super) connector: Connector,
    pub(super) events: mpsc::Sender<Event<P>>,
    /// Notified to reopen a stuck stream.
    pub(super) reset: Arc<Notify>,
    /// Cancelled when the worker is removed.
    pub(super) stop: CancellationToken,
}

impl<P: DispatchItems> WorkerConnection<P> {
    pub(super) async fn run(self) {
        let stop = self.stop.clone();
        stop.run_until_cancelled(self.keep_connected()).await;
    }

    async fn keep_connected(self) {
        let initial = self.options.backoff_initial;
        let max = self.options.backoff_max;
        // Different for every dispatcher and process, so that their retries spread.
        let client = (&self.address.url, std::process::id(), self.worker);
        let mut backoff = RetryPolicy::new(initial, max).with_jitter(client).backoff();
        loop {
            let started = Instant::now();
            let reason = match self.open().await {
                Ok((requests, responses)) => {
                    if self.events.send(Event::Connected { worker: self.worker, requests }).await.is_err() {
                        return;
                    }
                    match self.read(responses).await {
                        Some(reason) => reason,
                        None => return,
                    }
                }
                Err(reason) => reason,
            };
            if started.elapsed() > max {
                backoff.reset();
            }
            if self.events.send(Event::Disconnected { worker: self.worker, reason }).await.is_err() {
                return;
            }
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    /// Opens a connection and a stream on it.
    async fn open(&self) -> Result<(mpsc::Sender<P::Request>, Streaming<P::Response>), DisconnectReason> {
        let (sender, receiver) = mpsc::channel(2 * self.options.max_outstanding);
        let opening = async {
            let channel = self.connector.connect(&self.address).await;
            let channel = channel.map_err(|error| DisconnectReason::Unreachable(error.to_string()))?;
            let requests = ReceiverStream::new(receiver);
            Ok(P::open(channel, self.connector.max_message(), requests).await?)
        };
        let limit = self.options.open_timeout;
        let responses =
            tokio::time::timeout(limit, opening).await.unwrap_or(Err(DisconnectReason::OpenTimeout(limit)))?;
        Ok((sender, responses))
    }

    /// Reads responses until the stream ends; returns why it did. `None` once the dispatcher has ended.
    async fn read(&self, mut responses: Streaming<P::Response>) -> Option<DisconnectReason> {
        loop {
            let message = tokio::select! {
                message = responses.message() => message,
                () = self.reset.notified() => return Some(DisconnectReason::Stuck),
            };
            match message {
                Ok(Some(response)) => {
                    if self.events.send(Event::Response { worker: self.worker, response }).await.is_err() {
                        return None;
                    }
                }
                Ok(None) => return Some(DisconnectReason::Ended),
                Err(status) => return Some(status.into()),
            }
        }
    }
}
