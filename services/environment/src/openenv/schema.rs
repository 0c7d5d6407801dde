//! What a server says of its actions: `GET /schema`.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::address::Address;
use crate::failure::Failure;

/// Largest answer, in bytes.
const MAX_BYTES: u64 = 8 << 20;

/// The JSON schemas of a server.
pub(super) async fn get(address: &str) -> Result<Value, Failure> {
    let Address { host, place, path } = Address::of(address);
    let path = format!("{path}/schema");
    let failed = |error: std::io::Error| Failure::crashed(format!("http://{host}{path} cannot be read: {error}"));
    let mut stream = TcpStream::connect(&place).await.map_err(failed)?;
    // The old form, whose answer ends with the connection and has no chunks.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut answer = Vec::new();
    stream.take(MAX_BYTES).read_to_end(&mut answer).await.map_err(failed)?;
    body(&answer).ok_or_else(|| Failure::crashed(format!("http://{host}{path} has no schema of actions")))
}

fn body(answer: &[u8]) -> Option<Value> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.split(' ').nth(1)?;
    (status == "200").then(|| serde_json::from_slice(&answer[end + 4..]).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_has_a_schema() {
        assert_eq!(body(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}"), Some(serde_json::json!({"a": 1})));
        for answer in ["HTTP/1.1 404 Not Found\r\n\r\n{}", "HTTP/1.1 200 OK\r\n\r\n{\"a\"", "HTTP/1.1 200 OK", ""] {
            assert_eq!(body(answer.as_bytes()), None, "{answer}");
        }
    }
}
