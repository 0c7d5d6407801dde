//! A port that speaks HTTP/1, for clients of other systems: beside a server's own, or alone.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::tls::ServerCertificates;
use crate::accept::accept;
use crate::http1::{Http1Limits, serve_connection};
use crate::stall_timeout::StallTimeout;

/// What a connection may take.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// From the opening of a connection, or the end of a response, to the end of the next request's header.
    pub header: Duration,
    /// From the opening of a connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// How long a client may go without reading a pending response.
    pub unread: Duration,
    /// Bytes that are kept of a request's header, and of a response that is not read yet.
    pub buffer: usize,
}

/// A bound port and what it serves.
#[derive(Debug)]
pub struct HttpPort {
    pub listener: TcpListener,
    pub router: Router,
    pub tls: Option<ServerCertificates>,
    /// Connections at once. Further ones wait to be accepted.
    pub connections: usize,
    pub limits: HttpLimits,
}

impl HttpPort {
    /// Serves until `stop`, then until the last response has ended.
    pub async fn serve(self, stop: CancellationToken) {
        let Self { listener, router, tls, connections, limits } = self;
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
            let tls = tls.clone();
            let router = router.clone();
            let stop = stop.clone();
            tasks.spawn(async move {
                let _permit = permit;
                serve_stream(stream, tls, router, limits, stop).await;
            });
        }
        drop(listener);
        while tasks.join_next().await.is_some() {}
    }
}

/// Serves a connection that was accepted, until it ends, or until `stop` and the end of its response.
pub async fn serve_stream(
    stream: TcpStream,
    tls: Option<ServerCertificates>,
    router: Router,
    limits: HttpLimits,
    stop: CancellationToken,
) {
    let stream = StallTimeout::new(stream, limits.unread);
    let http = Http1Limits { header: limits.header, buffer: limits.buffer, keep_alive: true };
    let Some(tls) = tls else { return serve_connection(stream, router, http, &stop).await };
    let handshake = tokio::time::timeout(limits.handshake, tls.acceptor().accept(stream));
    match stop.run_until_cancelled(handshake).await {
        Some(Ok(Ok(stream))) => serve_connection(stream, router, http, &stop).await,
        Some(Ok(Err(error))) => tracing::debug!(%error, "TLS handshake failed"),
        Some(Err(_)) => tracing::debug!("TLS handshake timed out"),
        None => {}
    }
}
