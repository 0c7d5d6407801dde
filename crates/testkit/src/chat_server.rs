//! A small server that answers as an OpenAI-compatible endpoint does, well or badly: HTTP/1.1 as far as tests need it,
//! one connection a request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A request for a chat completion.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// Path, such as `/v1/chat/completions`.
    pub path: String,
    /// Value of the `authorization` header; empty where there is none.
    pub authorization: String,
    pub body: String,
}

/// Reply of the server to one request.
#[derive(Clone, Debug)]
pub struct ChatAnswer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    delay: Duration,
    /// Bytes of the body that are promised and never sent.
    missing: usize,
}

impl ChatAnswer {
    /// A completion with this text, of 10 tokens after a prompt of 100.
    pub fn of(text: &str) -> Self {
        Self::ended(text, "stop")
    }

    /// A completion that ended for this reason.
    pub fn ended(text: &str, finish_reason: &str) -> Self {
        Self::body(&format!(
            r#"{{"choices": [{}], "usage": {{"prompt_tokens": 100, "completion_tokens": 10}}}}"#,
            choice(text, finish_reason)
        ))
    }

    /// A response with two completions.
    pub fn two(texts: [&str; 2]) -> Self {
        let choices = texts.map(|text| choice(text, "stop")).join(", ");
        Self::body(&format!(r#"{{"choices": [{choices}]}}"#))
    }

    /// A successful response with another body.
    pub fn body(body: &str) -> Self {
        Self { status: 200, headers: Vec::new(), body: body.to_owned(), delay: Duration::ZERO, missing: 0 }
    }

    /// A completion that breaks off before its end.
    pub fn broken_off() -> Self {
        Self { missing: 8, ..Self::of("") }
    }

    /// An error with a message.
    pub fn error(status: u16, message: &str) -> Self {
        Self { status, ..Self::body(&format!(r#"{{"error": {{"message": {}}}}}"#, quoted(message))) }
    }

    /// Adds a header to every answer.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Waits before it answers.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    fn send(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        thread::sleep(self.delay);
        let length = self.body.len() + self.missing;
        let mut head = format!("HTTP/1.1 {} words\r\nContent-Length: {length}\r\nConnection: close\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n{}", self.body).as_bytes())
    }
}

fn choice(text: &str, finish_reason: &str) -> String {
    format!(
        r#"{{"message": {{"role": "assistant", "content": {}}}, "finish_reason": "{finish_reason}"}}"#,
        quoted(text)
    )
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if u32::from(character) < 32 => quoted += &format!("\\u{:04x}", u32::from(character)),
            character => quoted.push(character),
        }
    }
    quoted + "\""
}

/// A server on a port of its own, until the test ends.
pub struct ChatServer {
    /// Base URL, up to and with `/v1`.
    pub url: String,
    requests: Arc<Mutex<Vec<ChatRequest>>>,
}

impl ChatServer {
    /// Answers each request by itself; the number counts them from 0.
    pub fn start(answer: impl Fn(usize, &ChatRequest) -> ChatAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a test fails by panicking");
        let url = format!("http://{}/v1", listener.local_addr().expect("a test fails by panicking"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let answer = Arc::new(answer);
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(mut stream), seen, answer) = (stream, Arc::clone(&seen), Arc::clone(&answer)) else { continue };
                thread::spawn(move || {
                    let Some(request) = read(&stream) else { return };
                    let number = {
                        let mut seen = seen.lock().expect("a test fails by panicking");
                        seen.push(request.clone());
                        seen.len() - 1
                    };
                    // A client that does not wait is gone.
                    let _ = answer(number, &request).send(&mut stream);
                });
            }
        });
        Self { url, requests }
    }

    /// What was asked for so far.
    pub fn requests(&self) -> Vec<ChatRequest> {
        self.requests.lock().expect("a test fails by panicking").clone()
    }
}

fn read(stream: &TcpStream) -> Option<ChatRequest> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut authorization) = (0, String::new());
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => value.clone_into(&mut authorization),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(ChatRequest { path, authorization, body: String::from_utf8(body).ok()? })
}
