//! A server in a task: the one-process mode, and tests.

use std::net::SocketAddr;

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Drain, Ended, Server, ServerError};

/// A server that serves. Dropping it begins its drain and does not wait.
pub struct RunningServer {
    address: SocketAddr,
    endpoint: String,
    drain: Drain,
    stop: DropGuard,
    task: JoinHandle<Result<Ended, ServerError>>,
}

impl RunningServer {
    pub(super) fn start(server: Server) -> Self {
        let (address, endpoint, drain) = (server.address(), server.endpoint(), server.drain());
        let stop = CancellationToken::new();
        let task = tokio::spawn(server.run(stop.clone().cancelled_owned()));
        Self { address, endpoint, drain, stop: stop.drop_guard(), task }
    }

    /// What it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How clients in the same process reach it, as a URL.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Drains and ends.
    pub async fn stop(self) -> Result<Ended, ServerError> {
        drop(self.stop);
        joined(self.task).await
    }

    /// Cuts every connection and ends, as a killed process would.
    pub async fn kill(self) -> Result<Ended, ServerError> {
        self.drain.abort();
        joined(self.task).await
    }

    /// Waits for its end without asking for it: it ends by itself only where its transport fails.
    pub async fn ended(&mut self) -> Result<Ended, ServerError> {
        joined(&mut self.task).await
    }
}

impl Server {
    /// Serves in a task of its own, until it is told to stop.
    pub fn spawn(self) -> RunningServer {
        RunningServer::start(self)
    }
}

async fn joined(
    task: impl Future<Output = Result<Result<Ended, ServerError>, tokio::task::JoinError>>,
) -> Result<Ended, ServerError> {
    match task.await {
        Ok(ended) => ended,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and everything with it.
            Err(_) => Ok(Ended::Cut),
        },
    }
}
