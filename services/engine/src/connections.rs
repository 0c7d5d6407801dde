//! Connections: how many there may be, and how long one may do nothing.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Connections beyond the limit that are still answered, for probes and metrics alone.
const RESERVE: usize = 16;
/// How long one of those may take to send its request.
const RESERVE_DEADLINE: Duration = Duration::from_secs(1);
/// Descriptors that everything else of the process needs.
const OTHER_DESCRIPTORS: usize = 128;
/// Pause after the system had no connection to give, so that it is not asked in a loop.
const PAUSE: Duration = Duration::from_millis(50);

/// What connections may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    /// From the opening of a connection, or the end of an answer, to the end of the next request's header.
    pub(crate) header: Duration,
}

impl Limits {
    /// No more than the process has descriptors for.
    pub(crate) fn within_descriptors(self) -> Self {
        let most = descriptors().map_or(usize::MAX, |most| most.saturating_sub(OTHER_DESCRIPTORS).max(1));
        if most < self.connections {
            tracing::warn!(setting = self.connections, most, "fewer connections than max_connections: descriptors");
        }
        Self { connections: self.connections.min(most), ..self }
    }
}

/// How many files and connections the process may have open, where the system says.
fn descriptors() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Serves until `stop`, then until the last answer has ended. `probes` answers where there is no place for more.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    probes: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    let (places, reserve) = (Arc::new(Semaphore::new(limits.connections)), Arc::new(Semaphore::new(RESERVE)));
    // Ended with this future, however that ends.
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "no connection can be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
        };
        let place = |of: &Arc<Semaphore>| Arc::clone(of).try_acquire_owned().ok();
        let (place, router, header) = match (place(&places), &router) {
            (Some(place), router) => (place, router, limits.header),
            (None, _) => match place(&reserve) {
                Some(place) => (place, &probes, limits.header.min(RESERVE_DEADLINE)),
                // Nobody is owed an answer who comes after all these.
                None => continue,
            },
        };
        connections.spawn(connection(stream, place, router.clone(), header, stop.clone()));
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
    router: Router,
    header: Duration,
    stop: CancellationToken,
) {
    // Small frames of a stream must not wait for each other. Where the system has no such switch they do.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(header);
    let connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    drive(connection, &stop).await;
}

/// To its end; from `stop` on it ends with the answer in work. What fails on a connection is its client's to notice.
async fn drive<S>(
    mut connection: std::pin::Pin<&mut http1::Connection<TokioIo<TcpStream>, S>>,
    stop: &CancellationToken,
) where
    S: hyper::service::HttpService<hyper::body::Incoming, ResBody = axum::body::Body, Error = Infallible>,
    S::Future: Future,
{
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
