//! Connections of clients: how many, how slow, with TLS or without.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use evenkeel_rpc::accept::accept;
use evenkeel_rpc::http1::{Http1Limits, serve_connection};
use evenkeel_rpc::server::ServerCertificates;
use evenkeel_rpc::stall_timeout::StallTimeout;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Until the header of a request is complete, from the opening of a connection or the end of a response: clients keep connections open.
const HEADER: Duration = Duration::from_secs(300);
/// Time limit of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(15);
/// How long a client may go without reading a pending response.
const UNREAD: Duration = Duration::from_secs(60);
/// Bytes that are kept of a request's header, and of a response that is not read yet.
const BUFFER: usize = 64 << 10;

/// Serves until `stop`, then until the last response has ended. Connections beyond the limit wait to be accepted.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<ServerCertificates>,
    router: Router,
    connections: usize,
    stop: CancellationToken,
) {
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
        let (tls, router, stop) = (tls.clone(), router.clone(), stop.clone());
        tasks.spawn(async move {
            let _permit = permit;
            connection(stream, tls, router, stop).await;
        });
    }
    drop(listener);
    while tasks.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, tls: Option<ServerCertificates>, router: Router, stop: CancellationToken) {
    let stream = StallTimeout::new(stream, UNREAD);
    let limits = Http1Limits { header: HEADER, buffer: BUFFER, keep_alive: true };
    let Some(tls) = tls else { return serve_connection(stream, router, limits, &stop).await };
    let handshake = tokio::time::timeout(HANDSHAKE, tls.acceptor().accept(stream));
    match stop.run_until_cancelled(handshake).await {
        Some(Ok(Ok(stream))) => serve_connection(stream, router, limits, &stop).await,
        Some(Ok(Err(error))) => tracing::debug!(%error, "TLS handshake failed"),
        Some(Err(_)) => tracing::debug!("TLS handshake timed out"),
        None => {}
    }
}
