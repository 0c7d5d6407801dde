//! The server's side of a WebSocket, for a server that may do anything.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest, Sha1};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// An accepted connection.
pub(crate) struct ServerSocket(TcpStream);

impl ServerSocket {
    /// Answers the handshake.
    pub(crate) async fn accept(mut stream: TcpStream) -> Option<Self> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("GET /ws HTTP/1.1\r\n") && head.contains("Sec-WebSocket-Version: 13"), "{head}");
        let (_, key) = head.split_once("Sec-WebSocket-Key: ").unwrap();
        let key = key.split("\r\n").next().unwrap();
        let accept = BASE64_STANDARD.encode(Sha1::digest(format!("{key}{GUID}")));
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
        );
        stream.write_all(answer.as_bytes()).await.ok()?;
        Some(Self(stream))
    }

    /// The next text; `None` once the client says nothing more.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            let (first, second) = (self.0.read_u8().await.ok()?, self.0.read_u8().await.ok()?);
            assert_eq!((first & 0x80, second & 0x80), (0x80, 0x80), "whole and masked");
            let length = match second & 0x7f {
                126 => u64::from(self.0.read_u16().await.ok()?),
                127 => self.0.read_u64().await.ok()?,
                length => u64::from(length),
            };
            let mut mask = [0; 4];
            self.0.read_exact(&mut mask).await.ok()?;
            let mut content = vec![0; length as usize];
            self.0.read_exact(&mut content).await.ok()?;
            content.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
            match first & 0x0f {
                1 => return Some(String::from_utf8(content).unwrap()),
                8 => return None,
                // The answer to a ping.
                _ => {}
            }
        }
    }

    /// Sends a text, behind a ping.
    pub(crate) async fn send(&mut self, text: &str) -> std::io::Result<()> {
        let mut frames = vec![0x89, 1, b'?', 0x81, 127];
        frames.extend((text.len() as u64).to_be_bytes());
        frames.extend(text.as_bytes());
        self.0.write_all(&frames).await
    }
}
