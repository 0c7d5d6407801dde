//! What a server says of its actions: `GET /schema`.

use std::io::ErrorKind;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::address::Address;
use super::tls::connect;
use crate::failure::Failure;

/// Largest answer, in bytes.
const MAX_BYTES: u64 = 8 << 20;

/// The JSON schemas of a server.
pub(super) async fn get(address: &str) -> Result<Value, Failure> {
    let address = Address::of(address);
    let Address { host, path, tls, .. } = &address;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let path = format!("{path}/schema");
    let unreadable = |error: String| Failure::crashed(format!("{scheme}://{host}{path} cannot be read: {error}"));
    let failed = |error: std::io::Error| unreadable(error.to_string());
    let mut stream = connect(&address).await.map_err(unreadable)?;
    // The old form, whose answer ends with the connection and has no chunks.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut answer = Vec::new();
    match stream.take(MAX_BYTES).read_to_end(&mut answer).await {
        // Many servers end TLS without a word. JSON that was cut is no schema.
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(failed(error)),
        _ => {}
    }
    body(&answer).ok_or_else(|| Failure::crashed(format!("{scheme}://{host}{path} has no schema of actions")))
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
