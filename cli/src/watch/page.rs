//! The page of a run, as a terminal asks it.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use evenkeel_proto::FieldError;
use evenkeel_run_report::{LineCursor, RunUpdate};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Time limit of an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer: lines of some hundred steps take a fraction of it.
const MAX_BYTES: u64 = 64 << 20;

/// Where a run's page is: `http://HOST:PORT/run/NAME`.
pub(super) struct Page {
    host: String,
    path: String,
}

impl Page {
    pub(super) fn at(url: &str) -> Result<Self, FieldError> {
        let refused = || FieldError::quoted("RUN", url, "http://HOST:PORT/run/NAME, as `evenkeel train` prints it");
        let rest = url.strip_prefix("http://").ok_or_else(refused)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = path.trim_end_matches('/');
        let is_plain = !url.chars().any(|character| character.is_whitespace() || character.is_control());
        let is_run = path.strip_prefix("run/").is_some_and(|name| !name.is_empty() && !name.contains(['/', '?', '#']));
        if host.is_empty() || !is_run || !is_plain {
            return Err(refused());
        }
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        Ok(Self { host, path: format!("/{path}") })
    }

    pub(super) async fn update(&self, from: LineCursor) -> Result<RunUpdate> {
        let answer = tokio::time::timeout(TIMEOUT, self.get(from)).await;
        let answer = answer.with_context(|| format!("{} did not answer within {TIMEOUT:?}", self.host))?;
        let body = answer.with_context(|| format!("http://{}{}", self.host, self.path))?;
        serde_json::from_str(&body).context("the response is not from the page of a run")
    }

    /// One request over a connection of its own. HTTP 1.0, so that the answer is as long as the connection: it needs no
    /// client library.
    async fn get(&self, LineCursor { steps, evaluations }: LineCursor) -> Result<String> {
        let Self { host, path } = self;
        let mut stream = TcpStream::connect(host).await?;
        let request = format!(
            "GET {path}/lines?steps={steps}&evaluations={evaluations} HTTP/1.0\r\nHost: {host}\r\n\
            Accept: application/json\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(MAX_BYTES).read_to_end(&mut answer).await?;
        let answer = String::from_utf8(answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("the response is not HTTP")?;
        match head.split(' ').nth(1) {
            Some("200") => Ok(body.to_owned()),
            status => bail!("it answers {}: {}", status.unwrap_or("nothing"), body.trim()),
        }
    }
}
