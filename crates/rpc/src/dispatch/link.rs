//! One worker's connection: made, held, lost and made again, until the worker is let go.

use std::sync::Arc;

use evenkeel_config::human;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use super::DispatchOptions;
use crate::client::{Connector, Target};
use crate::items::Items;
use crate::retry::RetryPolicy;

/// What happens on a link, in its order.
pub(super) enum Event<P: Items> {
    /// The stream stands.
    Up { worker: u64, link: mpsc::Sender<P::Request> },
    /// An answer came.
    Answer { worker: u64, answer: P::Answer },
    /// The stream is gone, or could not be had.
    Down { worker: u64, reason: String },
}

/// The link of one worker.
pub(super) struct Link<P: Items> {
    pub(super) worker: u64,
    pub(super) target: Target,
    pub(super) options: DispatchOptions,
    pub(super) connector: Connector,
    pub(super) events: mpsc::Sender<Event<P>>,
    /// The stream is stuck: open another.
    pub(super) reset: Arc<Notify>,
    /// The worker is let go.
    pub(super) stop: CancellationToken,
}

impl<P: Items> Link<P> {
    pub(super) async fn run(self) {
        let stop = self.stop.clone();
        stop.run_until_cancelled(self.keep()).await;
    }

    async fn keep(self) {
        let initial = self.options.backoff_initial;
        let max = self.options.backoff_max;
        // Two dispatchers of one process differ by their worker numbers, two processes by their ids.
        let client = (&self.target.url, std::process::id(), self.worker);
        let mut retries = RetryPolicy::new(initial, max).with_jitter(client).start();
        loop {
            let begun = Instant::now();
            let reason = match self.open().await {
                Ok((link, answers)) => {
                    if self.events.send(Event::Up { worker: self.worker, link }).await.is_err() {
                        return;
                    }
                    self.read(answers).await
                }
                Err(reason) => reason,
            };
            if begun.elapsed() > max {
                retries.reset();
            }
            if self.events.send(Event::Down { worker: self.worker, reason }).await.is_err() {
                return;
            }
            let Some(retry) = retries.next_retry() else { return };
            tokio::time::sleep(retry.pause).await;
        }
    }

    /// A connection of its own with a stream on it.
    async fn open(&self) -> Result<(mpsc::Sender<P::Request>, Streaming<P::Answer>), String> {
        let (link, requests) = mpsc::channel(2 * self.options.max_outstanding);
        let opening = async {
            let channel = self.connector.connect(&self.target).await.map_err(|error| error.to_string())?;
            let requests = ReceiverStream::new(requests);
            let opened = P::open(channel, self.connector.max_message(), requests).await;
            opened.map_err(|status| format!("{:?}: {}", status.code(), status.message()))
        };
        let limit = self.options.open_timeout;
        let answers = tokio::time::timeout(limit, opening)
            .await
            .unwrap_or_else(|_| Err(format!("no stream within {}", human(limit))))?;
        Ok((link, answers))
    }

    /// Reads answers until the stream ends. Says why it did.
    async fn read(&self, mut answers: Streaming<P::Answer>) -> String {
        loop {
            let message = tokio::select! {
                message = answers.message() => message,
                () = self.reset.notified() => return "the stream was stuck".to_owned(),
            };
            match message {
                Ok(Some(answer)) => {
                    if self.events.send(Event::Answer { worker: self.worker, answer }).await.is_err() {
                        return "the dispatcher has ended".to_owned();
                    }
                }
                Ok(None) => return "the worker ended the stream".to_owned(),
                Err(status) => return format!("{:?}: {}", status.code(), status.message()),
            }
        }
    }
}
