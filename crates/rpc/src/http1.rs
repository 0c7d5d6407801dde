//! Connections of ports that speak HTTP/1 rather than gRPC: `/metrics`, the page of a run, and every
//! [`HttpPort`](crate::server::HttpPort). What axum's own server does not have are the limits on a connection.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

/// What a connection may cost.
#[derive(Debug, Clone, Copy)]
pub struct Http1Limits {
    /// Time limit from the opening of a connection until the header of its first request is complete.
    pub header: Duration,
    /// Time limit from the end of a response until the header of the next request is complete.
    pub idle: Duration,
    /// Bytes that are kept of a request's header, and of a response that is not read yet.
    pub buffer: usize,
    /// Whether a connection may carry further requests.
    pub keep_alive: bool,
}

/// A connection, with TLS or without.
trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Connection for S {}

/// Serves a connection to its end; after `stop`, to the end of the response in progress. Failures concern only this
/// client.
pub async fn serve_connection<S>(stream: S, router: Router, limits: Http1Limits, stop: &CancellationToken)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    // One type, so that hyper is compiled once.
    let stream: Box<dyn Connection> = Box::new(stream);
    serve_boxed(stream, router, limits, stop).await;
}

async fn serve_boxed(stream: Box<dyn Connection>, router: Router, limits: Http1Limits, stop: &CancellationToken) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.header.max(limits.idle));
    builder.max_buf_size(limits.buffer).keep_alive(limits.keep_alive);
    let routes = TowerToHyperService::new(router);
    let begun = CancellationToken::new();
    let service = service_fn(|request: Request<Incoming>| {
        begun.cancel();
        routes.call(request)
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // hyper has one limit for the first header and for those after it.
    let mut silent = pin!(async {
        if begun.run_until_cancelled(tokio::time::sleep(limits.header)).await.is_none() {
            std::future::pending().await
        }
    });
    let mut is_stopping = false;
    loop {
        tokio::select! {
            biased;
            _ = connection.as_mut() => return,
            () = silent.as_mut() => return,
            () = stop.cancelled(), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Connections of which there may be only so many: a further one takes the place of the oldest, so that clients that
/// hold connections and send nothing do not keep others out.
#[derive(Debug)]
pub struct OldestFirst {
    connections: VecDeque<AbortHandle>,
    max: usize,
}

impl OldestFirst {
    /// At most `max` connections.
    pub fn new(max: usize) -> Self {
        Self { connections: VecDeque::new(), max }
    }

    /// Begins to serve a connection, after room was made for it.
    pub fn add(&mut self, spawn: impl FnOnce() -> AbortHandle) {
        self.connections.retain(|connection| !connection.is_finished());
        while self.connections.len() >= self.max
            && let Some(oldest) = self.connections.pop_front()
        {
            oldest.abort();
        }
        self.connections.push_back(spawn());
    }
}
