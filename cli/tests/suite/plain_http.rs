//! HTTP for servers that stand between the generation service and an engine: one request a connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

pub(crate) struct Request {
    first: String,
    headers: String,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn read(client: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(client);
        let mut first = String::new();
        let mut headers = String::new();
        let mut length = 0;
        reader.read_line(&mut first).ok().filter(|bytes| *bytes > 0)?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let lower = line.to_ascii_lowercase();
            match lower.split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse().ok()?,
                Some(("connection", _)) => {}
                Some(_) => headers += &line,
                None => break,
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        Some(Self { first, headers, body })
    }

    pub(crate) fn path(&self) -> &str {
        let target = self.first.split_whitespace().nth(1).unwrap_or_default();
        target.split('?').next().unwrap_or_default()
    }

    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    pub(crate) fn set_json(&mut self, body: &Value) {
        self.body = body.to_string().into_bytes();
    }

    /// All of an engine's answer to it.
    pub(crate) fn forward(&self, port: u16) -> Option<Vec<u8>> {
        let Self { first, headers, body } = self;
        let head = format!("{first}{headers}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
        exchange(port, &[head.as_bytes(), body].concat())
    }
}

/// An answer of one's own.
pub(crate) fn whole(status: u16, json: &Value) -> Vec<u8> {
    let text = json.to_string();
    let head = "content-type: application/json\r\nconnection: close\r\n";
    format!("HTTP/1.1 {status} X\r\n{head}content-length: {}\r\n\r\n{text}", text.len()).into_bytes()
}

/// An HTTP response with an error.
pub(crate) fn refusal(code: u16, message: &str) -> Vec<u8> {
    whole(code, &json!({"error": {"message": message, "code": code}}))
}

/// Status and body of an engine's answer.
pub(crate) fn ask(port: u16, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n"
    );
    let answer = exchange(port, format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
    let text = String::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split_whitespace().nth(1)?.parse().ok()?, serde_json::from_str(body).unwrap_or_default()))
}

fn exchange(port: u16, request: &[u8]) -> Option<Vec<u8>> {
    let mut engine = TcpStream::connect(("127.0.0.1", port)).ok()?;
    engine.write_all(request).ok()?;
    let mut answer = Vec::new();
    engine.read_to_end(&mut answer).ok()?;
    Some(answer)
}
