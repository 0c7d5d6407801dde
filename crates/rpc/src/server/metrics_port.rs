//! `/metrics` on a port of its own: few connections, each for one request and a limited time.

use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::accept::accept;
use crate::http1::{Http1Limits, OldestFirst, serve_connection};

/// Concurrent connections. A further one replaces the oldest.
const MAX_CONNECTIONS: usize = 32;
/// Limits of a connection, which is for one request.
const LIMITS: Http1Limits =
    Http1Limits { header: Duration::from_secs(5), idle: Duration::from_secs(5), buffer: 16 << 10, keep_alive: false };
/// Time limit of the whole connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    // Dropped with this future.
    let mut tasks = JoinSet::new();
    let mut open = OldestFirst::new(MAX_CONNECTIONS);
    loop {
        let (stream, _) = tokio::select! {
            Some(_) = tasks.join_next() => continue,
            accepted = accept(&listener) => accepted,
        };
        open.add(|| tasks.spawn(serve_one_request(stream, router.clone())));
    }
}

async fn serve_one_request(stream: TcpStream, router: Router) {
    let never = CancellationToken::new();
    let _ = tokio::time::timeout(REQUEST_TIMEOUT, serve_connection(stream, router, LIMITS, &never)).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use evenkeel_telemetry::{install_metrics, metrics_router};

    async fn start() -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, metrics_router(install_metrics().unwrap())));
        address
    }

    async fn scrape(address: std::net::SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn idle_connections_do_not_block_the_metrics() {
        let address = start().await;
        let mut idle = Vec::new();
        for _ in 0..4 * MAX_CONNECTIONS {
            idle.push(TcpStream::connect(address).await.unwrap());
            idle.last_mut().unwrap().write_all(b"GET /metr").await.unwrap();
        }
        assert!(scrape(address).await.starts_with("HTTP/1.1 200"));
        // The oldest were closed for the newer ones.
        for mut connection in idle.drain(..MAX_CONNECTIONS) {
            let mut rest = Vec::new();
            let _ = connection.read_to_end(&mut rest).await;
        }
    }

    #[tokio::test]
    async fn a_header_that_does_not_end_is_given_up() {
        let address = start().await;
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET /metrics HTTP/1.1\r\nX: ").await.unwrap();
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(120), slow.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "it is closed");
    }
}
