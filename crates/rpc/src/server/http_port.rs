//! A port that speaks HTTP/1, for clients of other systems: beside a server's own, or alone.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::body_deadline::in_time;
use super::descriptors::within_descriptors;
use super::tls::ServerCertificates;
use super::web_pages::refuse_web_pages;
use crate::accept::accept;
use crate::http1::{Http1Limits, OldestFirst, serve_connection};
use crate::stall_timeout::StallTimeout;

/// Connections beyond the limit that are served probes. A further one replaces the oldest.
const RESERVE: usize = 16;
/// Time limit for a request on such a connection.
const RESERVE_DEADLINE: Duration = Duration::from_secs(1);

/// What a connection may take.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Time limit from the opening of a connection to the end of its first request's header. With TLS, also from its
    /// opening to the end of the handshake.
    pub header: Duration,
    /// Time limit from the end of a response to the end of the next request's header.
    pub idle: Duration,
    /// Time limit from the end of a request's header to the end of its body.
    pub body: Duration,
    /// How long a client may go without reading a pending response.
    pub unread: Duration,
    /// Bytes that are kept of a request's header, and of a response that is not read yet.
    pub buffer: usize,
}

impl Default for HttpLimits {
    /// For clients that keep their connections.
    fn default() -> Self {
        Self {
            header: Duration::from_secs(15),
            idle: Duration::from_secs(60),
            body: Duration::from_secs(30),
            unread: Duration::from_secs(60),
            buffer: 64 << 10,
        }
    }
}

/// A bound port and what it serves. Requests that web pages have browsers make are refused with 403.
#[derive(Debug)]
pub struct HttpPort {
    pub listener: TcpListener,
    /// The address of the settings, `HOST:PORT`. On loopback, requests may name its host.
    pub listen: String,
    pub router: Router,
    /// What connections beyond the limit are served, a few at once. Absent: they wait to be accepted.
    pub probes: Option<Router>,
    pub tls: Option<ServerCertificates>,
    /// Connections at once, within the limit of open files.
    pub connections: usize,
    pub limits: HttpLimits,
}

impl HttpPort {
    /// Serves until `stop`, then until the last response has ended.
    pub async fn serve(self, stop: CancellationToken) {
        let Self { listener, listen, router, probes, tls, connections, limits } = self;
        let address = match listener.local_addr() {
            Ok(address) => address,
            Err(error) => return tracing::error!(listen, %error, "a port cannot be served"),
        };
        let guarded =
            |router: Router| refuse_web_pages(router.layer(from_fn_with_state(limits.body, in_time)), address, &listen);
        let router = guarded(router);
        let probes = probes.map(guarded);
        let free = Arc::new(Semaphore::new(within_descriptors(connections)));
        let mut reserve = OldestFirst::new(RESERVE);
        // Aborted where this future is dropped.
        let mut tasks = JoinSet::new();
        loop {
            let (permit, stream) = tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = tasks.join_next() => continue,
                next = next(&listener, &free, probes.is_some()) => next,
            };
            let connection = |router: &Router, limits| {
                let stop = stop.clone();
                serve_stream(stream, tls.clone(), router.clone(), limits, stop)
            };
            match (permit, &probes) {
                (None, Some(probes)) => {
                    let header = limits.header.min(RESERVE_DEADLINE);
                    let idle = limits.idle.min(RESERVE_DEADLINE);
                    let connection = connection(probes, HttpLimits { header, idle, ..limits });
                    reserve.add(|| tasks.spawn(connection));
                }
                (permit, _) => {
                    let connection = connection(&router, limits);
                    tasks.spawn(async move {
                        let _permit = permit;
                        connection.await;
                    });
                }
            }
        }
        drop(listener);
        while tasks.join_next().await.is_some() {}
    }
}

/// Accepts the next connection, with a permit. At the limit it waits for a permit, unless there are probes to serve.
async fn next(
    listener: &TcpListener,
    free: &Arc<Semaphore>,
    has_probes: bool,
) -> (Option<OwnedSemaphorePermit>, TcpStream) {
    if has_probes {
        let (stream, _) = accept(listener).await;
        return (Arc::clone(free).try_acquire_owned().ok(), stream);
    }
    let permit = Arc::clone(free).acquire_owned().await.ok();
    (permit, accept(listener).await.0)
}

/// Serves a connection that was accepted, until it ends, or until `stop` and the end of its response.
async fn serve_stream(
    stream: TcpStream,
    tls: Option<ServerCertificates>,
    router: Router,
    limits: HttpLimits,
    stop: CancellationToken,
) {
    let HttpLimits { header, idle, unread, buffer, .. } = limits;
    let stream = StallTimeout::new(stream, unread);
    let http = Http1Limits { header, idle, buffer, keep_alive: true };
    let Some(tls) = tls else { return serve_connection(stream, router, http, &stop).await };
    let handshake = tokio::time::timeout(header, tls.acceptor().accept(stream));
    match stop.run_until_cancelled(handshake).await {
        Some(Ok(Ok(stream))) => serve_connection(stream, router, http, &stop).await,
        Some(Ok(Err(error))) => tracing::debug!(%error, "TLS handshake failed"),
        Some(Err(_)) => tracing::debug!("TLS handshake timed out"),
        None => {}
    }
}
