//! A port of its own that speaks HTTP/1, for clients of other systems, as long as its server serves.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::accept::accept;
use crate::http1::{Http1Limits, serve_connection};
use crate::stall_timeout::StallTimeout;

/// Limits of a connection.
const LIMITS: Http1Limits = Http1Limits { header: Duration::from_secs(15), buffer: 64 << 10, keep_alive: true };
/// How long a client may go without reading a pending response.
const UNREAD: Duration = Duration::from_secs(30);

/// A bound port and what it serves.
#[derive(Debug)]
pub(super) struct HttpPort {
    pub(super) listener: TcpListener,
    pub(super) router: Router,
    /// Connections at once. Further ones wait to be accepted.
    pub(super) connections: usize,
}

impl HttpPort {
    /// Serves until `stop`, then until the last response has ended.
    pub(super) async fn serve(self, stop: CancellationToken) {
        let Self { listener, router, connections } = self;
        let free = Arc::new(Semaphore::new(connections));
        // Aborted where this future is dropped.
        let mut tasks = JoinSet::new();
        loop {
            let next = async {
                let permit = Arc::clone(&free).acquire_owned().await;
                (permit, accept(&listener).await.0)
            };
            let (permit, stream) = tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = tasks.join_next() => continue,
                next = next => next,
            };
            let (router, stop) = (router.clone(), stop.clone());
            tasks.spawn(async move {
                let _permit = permit;
                serve_one(stream, router, &stop).await;
            });
        }
        drop(listener);
        while tasks.join_next().await.is_some() {}
    }
}

async fn serve_one(stream: TcpStream, router: Router, stop: &CancellationToken) {
    serve_connection(StallTimeout::new(stream, UNREAD), router, LIMITS, stop).await;
}
