//! Accepting connections where file descriptors may run out.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

/// Pause after a failed accept: usually file descriptors have run out, and an immediate retry would only use CPU.
const PAUSE: Duration = Duration::from_millis(50);

/// The next connection to a listener, whose small writes (events, verdicts, progress) are not delayed.
///
/// A failure to accept one is logged, and the next attempt waits a little. It may be dropped at any time: no connection
/// is lost.
pub async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => match stream.set_nodelay(true) {
                Ok(()) => return (stream, peer),
                Err(error) => tracing::debug!(%peer, %error, "connection closed before it was served"),
            },
            Err(error) => {
                let address = listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
                tracing::warn!(%address, %error, "cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
