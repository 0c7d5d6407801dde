//! Connections: how many there may be, and how long one may be idle.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use evenkeel_rpc::accept::accept;
use evenkeel_rpc::http1::OldestFirst;
use evenkeel_rpc::server::{HttpLimits, ServerCertificates, serve_stream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Connections beyond the limit that are still served, with probes and metrics only.
const RESERVE: usize = 16;
/// Time limit for a request on such a connection.
const RESERVE_DEADLINE: Duration = Duration::from_secs(1);
/// Bytes that are kept of a request's header, and of a response that is not read yet.
const BUFFER: usize = 64 << 10;
/// File descriptors reserved for the rest of the process.
const OTHER_DESCRIPTORS: usize = 128;

/// How many connections there may be, and how long one may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    pub(crate) connections: usize,
    /// From the opening of a connection, or the end of a response, to the end of the next request's header. With TLS,
    /// also from the opening of a connection to the end of its handshake.
    pub(crate) header: Duration,
    /// How long a client may go without reading a pending response.
    pub(crate) unread: Duration,
}

impl ConnectionLimits {
    /// Lowered to the file descriptors of the process.
    pub(crate) fn within_descriptors(self) -> Self {
        let max = descriptors().map_or(usize::MAX, |limit| limit.saturating_sub(OTHER_DESCRIPTORS).max(1));
        if max < self.connections {
            tracing::warn!(setting = self.connections, max, "max_connections is lowered to the limit of open files");
        }
        Self { connections: self.connections.min(max), ..self }
    }
}

/// The limit of open file descriptors. `None` if the system does not report it.
fn descriptors() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Serves until `stop`, then until the last response has ended. Connections beyond the limit are served by `probes`.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<ServerCertificates>,
    router: Router,
    probes: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let regular = Arc::new(Semaphore::new(limits.connections));
    let mut reserve = OldestFirst::new(RESERVE);
    // Aborted when this future ends or is dropped.
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener) => accepted,
        };
        match Arc::clone(&regular).try_acquire_owned() {
            Ok(permit) => {
                let connection = connection(stream, tls.clone(), router.clone(), limits, stop.clone());
                connections.spawn(async move {
                    let _permit: OwnedSemaphorePermit = permit;
                    connection.await;
                });
            }
            Err(_) => {
                let limits = ConnectionLimits { header: limits.header.min(RESERVE_DEADLINE), ..limits };
                let connection = connection(stream, tls.clone(), probes.clone(), limits, stop.clone());
                reserve.add(|| connections.spawn(connection));
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    stream: TcpStream,
    tls: Option<ServerCertificates>,
    router: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let ConnectionLimits { header, unread, .. } = limits;
    serve_stream(stream, tls, router, HttpLimits { header, handshake: header, unread, buffer: BUFFER }, stop).await;
}
