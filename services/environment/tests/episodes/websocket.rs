//! The server's side of a WebSocket, for a server that may do anything.

use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

pub(crate) struct ServerSocket(WebSocketStream<TcpStream>);

#[expect(clippy::result_large_err, reason = "the form that the library takes")]
fn at_ws(request: &Request, response: Response) -> Result<Response, ErrorResponse> {
    assert_eq!(request.uri().path(), "/ws");
    Ok(response)
}

impl ServerSocket {
    pub(crate) async fn accept(stream: TcpStream) -> Option<Self> {
        accept_hdr_async(stream, at_ws).await.ok().map(Self)
    }

    /// The next text; `None` once the client says nothing more.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            match self.0.next().await?.ok()? {
                Message::Text(text) => return Some(text.to_string()),
                Message::Close(_) => return None,
                // The answer to a ping.
                _ => {}
            }
        }
    }

    /// Sends a text, behind a ping.
    pub(crate) async fn send(&mut self, text: &str) -> Result<(), String> {
        self.0.feed(Message::Ping("?".into())).await.map_err(|error| error.to_string())?;
        self.0.send(Message::text(text)).await.map_err(|error| error.to_string())
    }
}
