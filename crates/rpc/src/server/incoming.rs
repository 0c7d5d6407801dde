//! Connections that can be aborted, one or all at once. The transport serves each in a task of its own to which there
//! is no handle, so a time limit around the server would leave them running. Instead their reads and writes fail.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

use super::connections::{ConnectionHandle, Connections, Registration};
use super::tls::ServerCertificates;
use crate::accept::accept;
use crate::pem::names;

/// Accepted connections that the transport has not taken yet.
const BACKLOG: usize = 64;

/// Accepts connections until `stop`. All are closed at `abort`, each also when it has expired.
pub(super) fn accept_all(
    helpers: &mut JoinSet<()>,
    listener: TcpListener,
    tls: Option<ServerCertificates>,
    stop: CancellationToken,
    abort: CancellationToken,
    registry: Connections,
) -> ReceiverStream<io::Result<Stream>> {
    let (connections, incoming) = mpsc::channel(BACKLOG);
    let accepting = async move {
        // Dropped with this future: a connection that is not ready when the server stops is closed.
        let mut handshakes = JoinSet::new();
        loop {
            let (stream, peer) = tokio::select! {
                Some(_) = handshakes.join_next() => continue,
                accepted = accept(&listener) => accepted,
            };
            let connection = Connection::new(stream, registry.register(peer.ip(), &abort));
            if let Some(tls) = &tls {
                handshakes.spawn(handshake(tls.acceptor(), connection, connections.clone()));
            } else if connections.send(Ok(Stream::Plain(connection))).await.is_err() {
                return;
            }
        }
    };
    helpers.spawn(async move {
        stop.run_until_cancelled(accepting).await;
    });
    ReceiverStream::new(incoming)
}

/// Ends once the connection is encrypted or closed, at the latest after the handshake timeout.
async fn handshake(acceptor: TlsAcceptor, connection: Connection, connections: mpsc::Sender<io::Result<Stream>>) {
    let handle = connection.registration.handle.clone();
    match acceptor.accept(connection).await {
        Ok(stream) => {
            let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
            handle.prove(certificate.map(names).unwrap_or_default());
            // If the receiver is gone, the server has shut down.
            let _ = connections.send(Ok(Stream::Tls(Box::new(stream)))).await;
        }
        Err(error) => tracing::debug!(%error, "a connection is refused by TLS"),
    }
}

/// A TCP connection whose reads and writes fail once it is aborted.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    registration: Registration,
    abort: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connection {
    fn new(stream: TcpStream, registration: Registration) -> Self {
        let abort = Box::pin(registration.handle.closing().cancelled_owned());
        Self { stream, registration, abort }
    }

    /// Fails once the connection is aborted, and registers the task to be woken then.
    fn poll_abort(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.abort.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "closed by the server")),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_abort(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_abort(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_abort(cx)?;
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

/// A connection as the transport sees it.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(Connection),
    Tls(Box<TlsStream<Connection>>),
}

/// Calls a method of whichever stream it is.
macro_rules! delegate {
    ($stream:expr, $method:ident($($argument:expr),*)) => {
        match $stream.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        delegate!(self, poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(self, poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, poll_shutdown(cx))
    }
}

impl Connected for Stream {
    type ConnectInfo = ConnectionHandle;

    fn connect_info(&self) -> ConnectionHandle {
        let connection = match self {
            Self::Plain(connection) => connection,
            Self::Tls(stream) => stream.get_ref().0,
        };
        connection.registration.handle.clone()
    }
}
