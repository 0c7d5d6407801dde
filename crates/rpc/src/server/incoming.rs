//! Connections that can be cut, all at once or one. The transport serves each in a task of its own that nobody can reach: a deadline around the server
//! would leave them running. So the end is put where they all pass, into their reads and writes.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

use super::connections::{Connections, Entry, Peer};

/// Accepted connections that wait to be served.
const BACKLOG: usize = 64;
/// Pause after a failed accept: usually file descriptors ran out, and asking at once again would only burn the CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until `stop`; every connection breaks at `cut`, or when its time is over.
pub(super) fn accept(
    helpers: &mut JoinSet<()>,
    listener: TcpListener,
    stop: CancellationToken,
    cut: CancellationToken,
    peers: Connections,
) -> ReceiverStream<io::Result<Connection>> {
    let (connections, incoming) = mpsc::channel(BACKLOG);
    let accepting = async move {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    // Verdicts and progress are small messages that somebody waits for.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%peer, %error, "connection gone before it was served");
                        continue;
                    }
                    if connections.send(Ok(Connection::new(stream, peers.take(peer.ip(), &cut)))).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    helpers.spawn(async move {
        stop.run_until_cancelled(accepting).await;
    });
    ReceiverStream::new(incoming)
}

/// A TCP connection that breaks when the server must end.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    entry: Entry,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connection {
    fn new(stream: TcpStream, entry: Entry) -> Self {
        let cut = Box::pin(entry.peer.closing().cancelled_owned());
        Self { stream, entry, cut }
    }

    /// Registers for the cut, too: who waits for this connection then waits for either.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.cut.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "closed by the server")),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.entry.peer.clone()
    }
}
