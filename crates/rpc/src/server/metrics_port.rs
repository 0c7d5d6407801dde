//! `/metrics` on a port of its own: few connections, each for one request and a short while.

use std::collections::VecDeque;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Connections at once. One more takes the place of the oldest.
const CONNECTIONS: usize = 32;
/// How long a connection may take to send its request.
const HEADER: Duration = Duration::from_secs(5);
/// How long it may stand.
const WHOLE: Duration = Duration::from_secs(30);
/// Pause after the system had no connection to give, so that it is not asked in a loop.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves for ever.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    // Ended with this future.
    let mut tasks = JoinSet::new();
    let mut standing = VecDeque::<AbortHandle>::new();
    loop {
        let accepted = tokio::select! {
            Some(_) = tasks.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for metrics");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        standing.retain(|connection| !connection.is_finished());
        if standing.len() >= CONNECTIONS
            && let Some(oldest) = standing.pop_front()
        {
            oldest.abort();
        }
        standing.push_back(tasks.spawn(answer(stream, router.clone())));
    }
}

/// What fails on a connection is its client's to notice.
async fn answer(stream: TcpStream, router: Router) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER).keep_alive(false);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let _ = tokio::time::timeout(WHOLE, connection).await;
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
    async fn connections_that_do_nothing_keep_nobody_from_the_metrics() {
        let address = start().await;
        let mut idle = Vec::new();
        for _ in 0..4 * CONNECTIONS {
            idle.push(TcpStream::connect(address).await.unwrap());
            idle.last_mut().unwrap().write_all(b"GET /metr").await.unwrap();
        }
        assert!(scrape(address).await.starts_with("HTTP/1.1 200"));
        // The oldest were closed for the newer ones.
        for mut connection in idle.drain(..CONNECTIONS) {
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
