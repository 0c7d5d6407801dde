//! The client's side of a WebSocket, as far as OpenEnv has it: text messages, and the end.

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::address::Address;
use super::tls::{Connection, connect};

/// Longest message of a server, in bytes.
const MAX_MESSAGE: usize = 64 << 20;
/// Room for what is read at once, in bytes: thousands of episodes have a socket each.
const PIECE: usize = 16 << 10;

pub(super) struct WebSocket<S>(WebSocketStream<S>);

impl WebSocket<Connection> {
    /// Connects to `ADDRESS/ws`.
    ///
    /// # Errors
    /// In words: nobody listens there, something that speaks another protocol, or at `wss://` somebody else.
    pub(super) async fn connect(address: &str) -> Result<Self, String> {
        let address = Address::of(address);
        Self::open(connect(&address).await?, &address).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    async fn open(stream: S, address: &Address) -> Result<Self, String> {
        // What encrypts is below: the scheme is no part of the request.
        let request = format!("ws://{}{}/ws", address.host, address.path);
        let config = WebSocketConfig::default()
            .read_buffer_size(PIECE)
            .write_buffer_size(0)
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        match client_async_with_config(request, stream, Some(config)).await {
            Ok((stream, _)) => Ok(Self(stream)),
            Err(tungstenite::Error::Http(answer)) => {
                Err(format!("it answers `{}`, allowed: a WebSocket at /ws", answer.status()))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The next text, `None` once the server says nothing more. Pings are answered. Dropping the future loses nothing.
    ///
    /// # Errors
    /// In words: the connection is gone, or what comes is not of this protocol.
    pub(super) async fn read(&mut self) -> Result<Option<String>, String> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Ok(Some(text.as_str().to_owned())),
                Some(Ok(Message::Binary(_))) => return Err("the server gave a binary message".to_owned()),
                // The answer to a ping goes out as soon as more is read.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_))) | None => return Ok(None),
                Some(Err(error)) => return Err(error.to_string()),
            }
        }
    }

    /// Sends a text.
    ///
    /// # Errors
    /// In words: the connection is gone.
    pub(super) async fn send(&mut self, text: String) -> Result<(), String> {
        self.0.send(Message::text(text)).await.map_err(|error| error.to_string())
    }

    /// Says that nothing more follows.
    ///
    /// # Errors
    /// In words: the connection is gone.
    pub(super) async fn close(&mut self) -> Result<(), String> {
        self.0.close(None).await.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    /// A socket behind its handshake, and the server's end of it.
    async fn pair() -> (WebSocket<DuplexStream>, DuplexStream) {
        let (ours, theirs) = duplex(1 << 20);
        (WebSocket(WebSocketStream::from_raw_socket(ours, Role::Client, None).await), theirs)
    }

    #[tokio::test]
    async fn messages_come_whole_however_they_are_cut_and_a_ping_is_answered() {
        let (mut websocket, mut server) = pair().await;
        let sent = b"\x01\x02a \x89\x01?\x00\x02b \x80\x01c\x81\x03\xe2\x82\xac\x88\x02\x03\xe8";
        let server = tokio::spawn(async move {
            for byte in sent {
                server.write_all(&[*byte]).await.unwrap();
            }
            let mut pong = [0; 7];
            server.read_exact(&mut pong).await.unwrap();
            pong
        });
        assert_eq!(websocket.read().await, Ok(Some("a b c".into())));
        assert_eq!(websocket.read().await, Ok(Some("€".into())));
        assert_eq!(websocket.read().await, Ok(None));
        let pong = server.await.unwrap();
        // Masked, as all that clients send.
        assert_eq!((&pong[..2], pong[6] ^ pong[2]), (&[0x8a, 0x81][..], b'?'));
    }

    #[tokio::test]
    async fn what_is_no_text_of_the_protocol_is_refused() {
        for sent in [
            &b"\x82\x01\x00"[..],
            b"\x80\x01a",
            b"\xc1\x01a",
            b"\x81\x81\x01\x02\x03\x04\x05",
            b"\x81\x01\xff",
            b"\x81\x7f\x00\x00\x00\x01\x00\x00\x00\x00",
            b"",
        ] {
            let (mut websocket, mut server) = pair().await;
            server.write_all(sent).await.unwrap();
            drop(server);
            let said = websocket.read().await;
            assert!(said.is_err(), "{sent:?}: {said:?}");
        }
    }

    #[tokio::test]
    async fn a_server_without_websockets_is_named_by_what_it_answers() {
        for (answer, words) in [("HTTP/1.1 404 Not Found\r\n\r\n", "404 Not Found"), ("SSH-2.0-x\r\n\r\n", "")] {
            let (ours, mut server) = duplex(1 << 16);
            server.write_all(answer.as_bytes()).await.unwrap();
            let opened = WebSocket::open(ours, &Address::of("ws://host:1/a")).await;
            assert!(opened.is_err_and(|error| error.contains(words)), "{answer}");
        }
    }
}
