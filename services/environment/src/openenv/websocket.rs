//! The client's side of a WebSocket (RFC 6455), as far as OpenEnv has it: text messages, pings, and the end.

use std::hash::{BuildHasher, RandomState};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest, Sha1};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::address::Address;

/// Longest message of a server, in bytes.
const MAX_MESSAGE: usize = 64 << 20;
/// Longest answer to the handshake, in bytes.
const MAX_HEAD: usize = 16 << 10;
/// Room for what is read at once, in bytes.
const PIECE: usize = 16 << 10;
/// What a server puts behind the key, to show that it speaks this protocol.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// What a server says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    Text(String),
    Ping(Vec<u8>),
    /// It says nothing more.
    Close,
}

/// An open connection.
pub(super) struct WebSocket<S> {
    stream: S,
    /// Read and not yet understood.
    buffer: Vec<u8>,
    /// The parts of a message that is not whole.
    message: Option<Vec<u8>>,
    masks: RandomState,
    frames: u64,
}

/// A frame: whether a message ends with it, what it is, and where its content is in the buffer.
struct Frame {
    is_last: bool,
    opcode: u8,
    start: usize,
    end: usize,
}

impl WebSocket<TcpStream> {
    /// Connects to `ADDRESS/ws`.
    ///
    /// # Errors
    /// In words: nobody listens there, or something that speaks another protocol.
    pub(super) async fn connect(address: &str) -> Result<Self, String> {
        let address = Address::of(address);
        let stream = TcpStream::connect(&address.place).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Self::open(stream, &address).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    async fn open(mut stream: S, address: &Address) -> Result<Self, String> {
        let masks = RandomState::new();
        let key = [masks.hash_one("key"), masks.hash_one("more")].map(u64::to_le_bytes).concat();
        let key = BASE64_STANDARD.encode(key);
        let request = format!(
            "GET {}/ws HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n\
             Sec-WebSocket-Version: 13\r\n\r\n",
            address.path, address.host
        );
        stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
        let mut buffer = Vec::new();
        let end = loop {
            if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            if buffer.len() > MAX_HEAD {
                return Err("the answer is no WebSocket handshake".to_owned());
            }
            buffer.reserve(PIECE);
            let read = stream.read_buf(&mut buffer).await.map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("the connection was closed before the handshake".to_owned());
            }
        };
        let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
        buffer.drain(..end + 4);
        accepted(&head, &key)?;
        Ok(Self { stream, buffer, message: None, masks, frames: 0 })
    }

    /// The next message. Dropping the future loses nothing.
    ///
    /// # Errors
    /// In words: the connection is gone, or what comes is not of this protocol.
    pub(super) async fn read(&mut self) -> Result<Message, String> {
        loop {
            if let Some(frame) = self.frame()? {
                if let Some(message) = self.take(&frame)? {
                    return Ok(message);
                }
                continue;
            }
            self.buffer.reserve(PIECE);
            let read = self.stream.read_buf(&mut self.buffer).await.map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("the server closed the connection".to_owned());
            }
        }
    }

    /// The frame at the beginning of the buffer, once it is whole.
    fn frame(&self) -> Result<Option<Frame>, String> {
        let [first, second, rest @ ..] = &self.buffer[..] else { return Ok(None) };
        if first & 0x70 != 0 || second & 0x80 != 0 {
            return Err("the server breaks the protocol of WebSockets".to_owned());
        }
        let (length, start) = match second & 0x7f {
            126 => match rest.first_chunk::<2>() {
                Some(length) => (u64::from(u16::from_be_bytes(*length)), 4),
                None => return Ok(None),
            },
            127 => match rest.first_chunk::<8>() {
                Some(length) => (u64::from_be_bytes(*length), 10),
                None => return Ok(None),
            },
            length => (u64::from(length), 2),
        };
        let so_far = self.message.as_ref().map_or(0, Vec::len) as u64;
        if length.saturating_add(so_far) > MAX_MESSAGE as u64 {
            return Err(format!("the server gave a message of more than {MAX_MESSAGE} bytes"));
        }
        let end = start + length as usize;
        let frame = Frame { is_last: first & 0x80 != 0, opcode: first & 0x0f, start, end };
        Ok((self.buffer.len() >= end).then_some(frame))
    }

    /// Takes a frame out of the buffer; a message that is whole with it.
    fn take(&mut self, frame: &Frame) -> Result<Option<Message>, String> {
        let content = self.buffer[frame.start..frame.end].to_vec();
        self.buffer.drain(..frame.end);
        match frame.opcode {
            PING => return Ok(Some(Message::Ping(content))),
            PONG => return Ok(None),
            CLOSE => return Ok(Some(Message::Close)),
            BINARY => return Err("the server gave a binary message".to_owned()),
            TEXT if self.message.is_none() => self.message = Some(content),
            CONTINUATION if self.message.is_some() => {
                self.message.iter_mut().for_each(|message| message.extend(&content))
            }
            _ => return Err("the server breaks the protocol of WebSockets".to_owned()),
        }
        if !frame.is_last {
            return Ok(None);
        }
        let whole = self.message.take().unwrap_or_default();
        let text = String::from_utf8(whole).map_err(|_| "the server gave a text that is not UTF-8".to_owned())?;
        Ok(Some(Message::Text(text)))
    }

    /// Sends a text.
    ///
    /// # Errors
    /// In words: the connection is gone.
    pub(super) async fn send(&mut self, text: &str) -> Result<(), String> {
        self.write(TEXT, text.as_bytes()).await
    }

    /// Answers a ping.
    ///
    /// # Errors
    /// In words: the connection is gone.
    pub(super) async fn pong(&mut self, content: &[u8]) -> Result<(), String> {
        self.write(PONG, content).await
    }

    /// Says that nothing more follows.
    ///
    /// # Errors
    /// In words: the connection is gone.
    pub(super) async fn close(&mut self) -> Result<(), String> {
        self.write(CLOSE, &1000_u16.to_be_bytes()).await
    }

    /// Clients mask what they send, each frame in its own way.
    async fn write(&mut self, opcode: u8, content: &[u8]) -> Result<(), String> {
        self.frames += 1;
        let mask = (self.masks.hash_one(self.frames) as u32).to_le_bytes();
        let mut frame = vec![0x80 | opcode];
        match content.len() {
            length @ 0..126 => frame.push(0x80 | length as u8),
            length @ 126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
            length => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(content.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.stream.write_all(&frame).await.map_err(|error| error.to_string())?;
        self.stream.flush().await.map_err(|error| error.to_string())
    }
}

/// Checks a server's answer to the handshake.
fn accepted(head: &str, key: &str) -> Result<(), String> {
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("101") {
        return Err(format!("it answers `{status}`, allowed: a WebSocket at /ws"));
    }
    let expected = BASE64_STANDARD.encode(Sha1::digest(format!("{key}{GUID}")));
    let accept = lines
        .filter_map(|line| line.split_once(':'))
        .find_map(|(name, value)| name.eq_ignore_ascii_case("sec-websocket-accept").then(|| value.trim().to_owned()));
    if accept == Some(expected) { Ok(()) } else { Err("the answer is no WebSocket handshake".to_owned()) }
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    fn pair() -> (WebSocket<DuplexStream>, DuplexStream) {
        let (ours, theirs) = duplex(1 << 20);
        let websocket =
            WebSocket { stream: ours, buffer: Vec::new(), message: None, masks: RandomState::new(), frames: 0 };
        (websocket, theirs)
    }

    fn frame(first: u8, content: &[u8]) -> Vec<u8> {
        let mut frame = vec![first];
        match content.len() {
            length @ 0..126 => frame.push(length as u8),
            length => {
                frame.push(126);
                frame.extend((length as u16).to_be_bytes());
            }
        }
        frame.extend(content);
        frame
    }

    #[tokio::test]
    async fn messages_come_whole_however_they_are_cut_into_frames_and_pieces() {
        let (mut websocket, mut server) = pair();
        let long = "é".repeat(500);
        let mut sent =
            [frame(0x01, b"a "), frame(0x89, b"still there?"), frame(0x00, b"b "), frame(0x80, b"c")].concat();
        sent.extend(frame(0x81, long.as_bytes()));
        sent.extend(frame(0x8a, b""));
        sent.extend(frame(0x88, b"\x03\xe8"));
        tokio::spawn(async move {
            for byte in sent {
                server.write_all(&[byte]).await.unwrap();
            }
            server
        });
        assert_eq!(websocket.read().await, Ok(Message::Ping(b"still there?".to_vec())));
        assert_eq!(websocket.read().await, Ok(Message::Text("a b c".into())));
        assert_eq!(websocket.read().await, Ok(Message::Text(long)));
        assert_eq!(websocket.read().await, Ok(Message::Close));
    }

    #[tokio::test]
    async fn what_breaks_the_protocol_is_refused() {
        for (sent, words) in [
            (frame(0x82, b"\x00"), "a binary message"),
            (frame(0x80, b"a"), "breaks the protocol"),
            (frame(0xc1, b"a"), "breaks the protocol"),
            (vec![0x81, 0x81, 1, 2, 3, 4, 5], "breaks the protocol"),
            (frame(0x81, b"\xff"), "not UTF-8"),
            (vec![0x81, 127, 0, 0, 0, 1, 0, 0, 0, 0], "a message of more than"),
            (vec![], "closed the connection"),
        ] {
            let (mut websocket, mut server) = pair();
            server.write_all(&sent).await.unwrap();
            drop(server);
            let error = websocket.read().await.unwrap_err();
            assert!(error.contains(words), "{sent:?}: {error}");
        }
    }

    #[tokio::test]
    async fn what_is_sent_is_masked_and_has_its_length() {
        for length in [0, 125, 126, 70_000] {
            let (mut websocket, mut server) = pair();
            let text = "x".repeat(length);
            let sent = tokio::spawn(async move { websocket.send(&text).await });
            let mut head = [0; 2];
            server.read_exact(&mut head).await.unwrap();
            let found = match head[1] & 0x7f {
                126 => u64::from(server.read_u16().await.unwrap()),
                127 => server.read_u64().await.unwrap(),
                length => u64::from(length),
            };
            assert_eq!((head[0], head[1] & 0x80, found), (0x81, 0x80, length as u64));
            let mut mask = [0; 4];
            server.read_exact(&mut mask).await.unwrap();
            let mut content = vec![0; length];
            server.read_exact(&mut content).await.unwrap();
            assert!(content.iter().zip(mask.iter().cycle()).all(|(byte, mask)| byte ^ mask == b'x'));
            sent.await.unwrap().unwrap();
        }
    }

    #[test]
    fn a_handshake_is_checked() {
        // The example of RFC 6455, section 1.3.
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        let head = |status: &str, accept: &str| {
            format!("HTTP/1.1 {status}\r\nUpgrade: websocket\r\nSEC-WebSocket-Accept: {accept}")
        };
        assert_eq!(accepted(&head("101 Switching Protocols", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), key), Ok(()));
        assert!(accepted(&head("101 Switching Protocols", "s3pPLMBiTxaQ9kYGzzhZRbK+xOp="), key).is_err());
        assert!(accepted("HTTP/1.1 404 Not Found\r\n", key).unwrap_err().contains("404 Not Found"));
    }
}
