//! Connections of the page: how many, how long, and how slow.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use evenkeel_rpc::accept::accept;
use evenkeel_rpc::http1::{Http1Limits, serve_connection};
use evenkeel_rpc::stall_timeout::StallTimeout;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::instruments::{self, PageConnection};

/// What connections may cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageLimits {
    /// Connections at once; further ones are refused.
    pub(super) connections: usize,
    /// Until the header of a request is complete, from the opening of a connection or the end of an answer.
    pub(super) header: Duration,
    /// How long a reader may take nothing.
    pub(super) limit: Duration,
}

impl Default for PageLimits {
    fn default() -> Self {
        Self { connections: 32, header: Duration::from_secs(15), limit: Duration::from_secs(20) }
    }
}

/// Bytes that are kept of a request's header, and of an answer that is not taken yet.
const BUFFER: usize = 64 << 10;
/// Refusals that are being sent; further connections are closed without one.
const REFUSALS: usize = 16;
/// Time limit of a refusal.
const REFUSAL: Duration = Duration::from_secs(1);
/// The answer where there are too many connections.
const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 29\r\nRetry-After: 3\r\n\
    Connection: close\r\n\r\ntoo many readers of this page";

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, router: Router, limits: PageLimits) {
    let free = Arc::new(Semaphore::new(limits.connections));
    let refusals = Arc::new(Semaphore::new(REFUSALS));
    // Dropped with this future.
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = tokio::select! {
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener) => accepted,
        };
        match Arc::clone(&free).try_acquire_owned() {
            Ok(permit) => {
                let router = router.clone();
                connections.spawn(async move {
                    let _permit = permit;
                    let _open = PageConnection::open();
                    connection(stream, router, limits).await;
                });
            }
            Err(_) => {
                instruments::page_refused();
                if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
                    connections.spawn(async move {
                        let _permit = permit;
                        let _ = tokio::time::timeout(REFUSAL, refuse(stream)).await;
                    });
                }
            }
        }
    }
}

/// Says why and closes, once the client has: a connection that is closed with a request unread loses the answer.
async fn refuse(mut stream: TcpStream) -> std::io::Result<()> {
    stream.write_all(BUSY).await?;
    stream.shutdown().await?;
    let mut unread = [0; 1024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

async fn connection(stream: TcpStream, router: Router, limits: PageLimits) {
    let stream = StallTimeout::new(stream, limits.limit);
    let limits = Http1Limits { header: limits.header, idle: limits.header, buffer: BUFFER, keep_alive: true };
    serve_connection(stream, router, limits, &CancellationToken::new()).await;
}
