//! A server in a task, for several services in one process and for tests.

use std::net::SocketAddr;

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Drain, Server, ServerError, ShutdownOutcome};

/// A running server. Dropping it starts its drain without waiting.
pub struct RunningServer {
    address: SocketAddr,
    endpoint: String,
    drain: Drain,
    stop: DropGuard,
    task: JoinHandle<Result<ShutdownOutcome, ServerError>>,
}

impl RunningServer {
    pub(super) fn start(server: Server) -> Self {
        let address = server.address();
        let endpoint = server.endpoint();
        let drain = server.drain();
        let stop = CancellationToken::new();
        let task = tokio::spawn(server.run(stop.clone().cancelled_owned()));
        Self { address, endpoint, drain, stop: stop.drop_guard(), task }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server's URL for clients on the same machine.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Drains and shuts down.
    pub async fn stop(self) -> Result<ShutdownOutcome, ServerError> {
        drop(self.stop);
        joined(self.task).await
    }

    /// Closes every connection at once, as if the process had been killed.
    pub async fn kill(self) -> Result<ShutdownOutcome, ServerError> {
        self.drain.abort();
        joined(self.task).await
    }

    /// Waits for its end without a shutdown: it ends by itself only if its transport fails.
    pub async fn ended(&mut self) -> Result<ShutdownOutcome, ServerError> {
        joined(&mut self.task).await
    }
}

impl Server {
    /// Serves in a task of its own until [`RunningServer::stop`].
    pub fn spawn(self) -> RunningServer {
        RunningServer::start(self)
    }
}

async fn joined(
    task: impl Future<Output = Result<Result<ShutdownOutcome, ServerError>, tokio::task::JoinError>>,
) -> Result<ShutdownOutcome, ServerError> {
    match task.await {
        Ok(ended) => ended,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => Ok(ShutdownOutcome::Aborted),
        },
    }
}
