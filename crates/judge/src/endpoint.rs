//! Calls to an OpenAI-compatible endpoint.

use std::error::Error;
use std::time::Duration;

use evenkeel_proto::shown::one_line;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::key::Key;
use crate::pause::{Pauses, retry_after};
use crate::settings::JudgeSettings;
use crate::template::Messages;

/// Longest response, in bytes.
const MAX_RESPONSE: usize = 1 << 20;
/// Longest text of the endpoint in a message, in characters.
const MAX_WORDS: usize = 300;
/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// An endpoint with its key.
pub(crate) struct Endpoint {
    url: String,
    model: String,
    client: Client,
    key: Key,
    pauses: Pauses,
}

/// What the endpoint gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The words; empty for a refusal of the model.
    pub(crate) text: String,
    pub(crate) finish_reason: String,
    pub(crate) prompt_tokens: u64,
    pub(crate) reply_tokens: u64,
}

/// Why a call has no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallError {
    /// The call took longer than the limit.
    Timeout,
    /// The endpoint did not take it, and may do so after the pause; without one, after one of the caller's.
    Busy { is_rate_limit: bool, after: Option<Duration>, words: String },
    /// The connection broke off after the call was sent. The call may be repeated.
    BrokenOff(String),
    /// The endpoint refuses it, and would do so again.
    Refused(String),
    /// The endpoint answered it with what is no completion, and would do so again.
    Unreadable(String),
}

impl CallError {
    /// Whether the endpoint may have charged for the call: it took it, as far as anybody can tell.
    pub(crate) fn may_cost(&self) -> bool {
        matches!(self, Self::Timeout | Self::BrokenOff(_) | Self::Unreadable(_))
    }
}

impl Endpoint {
    /// # Errors
    /// A client that cannot be built, in words.
    pub(crate) fn new(settings: &JudgeSettings, key: Key) -> Result<Self, String> {
        // An error only says that a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .user_agent(concat!("evenkeel/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            // The key goes to where the settings say and nowhere else.
            .redirect(reqwest::redirect::Policy::none());
        // A proxy would read the key of a call without encryption; most such endpoints are on this network.
        if settings.endpoint.starts_with("http://") {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| in_words(&error))?;
        let url = format!("{}/chat/completions", settings.endpoint.trim_end_matches('/'));
        Ok(Self { url, model: settings.model.clone(), client, key, pauses: Pauses::default() })
    }

    /// The body of a call. Equal questions have equal bodies.
    pub(crate) fn body(&self, settings: &JudgeSettings, messages: &Messages) -> String {
        let sampling = &settings.sampling;
        let mut body = json!({
            "model": self.model,
            "messages": [
                {"role": "system", "content": messages.system},
                {"role": "user", "content": messages.user},
            ],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "n": 1,
        });
        if let Some(seed) = sampling.seed {
            body["seed"] = seed.into();
        }
        if sampling.json_mode {
            body["response_format"] = json!({"type": "json_object"});
        }
        body.to_string()
    }

    /// Makes one call, once the endpoint takes calls again.
    ///
    /// # Errors
    /// Why there is no reply.
    pub(crate) async fn call(&self, body: String, limit: Duration) -> Result<Reply, CallError> {
        self.pauses.over().await;
        let result = timeout(limit, self.exchange(body)).await.unwrap_or(Err(CallError::Timeout));
        let label = match &result {
            Ok(_) => "reply",
            Err(CallError::Timeout) => "timeout",
            Err(CallError::Busy { .. } | CallError::BrokenOff(_)) => "busy",
            Err(CallError::Refused(_) | CallError::Unreadable(_)) => "refused",
        };
        metrics::counter!("evenkeel_judge_calls_total", "result" => label).increment(1);
        result
    }

    /// When the endpoint takes calls again, where it has said so.
    pub(crate) fn opens_at(&self) -> Option<Instant> {
        self.pauses.until()
    }

    async fn exchange(&self, body: String) -> Result<Reply, CallError> {
        let mut request = self.client.post(&self.url).header(CONTENT_TYPE, "application/json").body(body);
        if let Some(key) = self.key.expose() {
            let value = HeaderValue::from_str(&format!("Bearer {key}"));
            let mut value = value.map_err(|_| CallError::Refused("the key cannot be sent in a header".to_owned()))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let lost = |error: &reqwest::Error, was_taken: bool| {
            let words = self.shown(&in_words(error));
            if was_taken {
                CallError::BrokenOff(words)
            } else {
                CallError::Busy { is_rate_limit: false, after: None, words }
            }
        };
        let mut response = request.send().await.map_err(|error| lost(&error, !error.is_connect()))?;
        let status = response.status();
        let after = retry_after(response.headers());
        let body = read(&mut response).await.map_err(|error| lost(&error, status.is_success()))?;
        match (status, body) {
            (status, Some(body)) if status.is_success() => self.reply(&body),
            (status, None) if status.is_success() => {
                Err(CallError::Unreadable(format!("the response has more than {MAX_RESPONSE} bytes")))
            }
            (status, body) => Err(self.failed(status, after, &body.unwrap_or_default())),
        }
    }

    fn failed(&self, status: StatusCode, after: Option<Duration>, body: &[u8]) -> CallError {
        let words = format!("{status}: {}", self.shown(&message_of(body)));
        let is_rate_limit = status == StatusCode::TOO_MANY_REQUESTS;
        let is_busy = is_rate_limit
            || status.is_server_error()
            || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_EARLY);
        if !is_busy {
            return CallError::Refused(words);
        }
        if let Some(after) = after {
            // Every call waits, not only this one.
            self.pauses.pause(after);
        }
        CallError::Busy { is_rate_limit, after, words }
    }

    fn reply(&self, body: &[u8]) -> Result<Reply, CallError> {
        let completion: Completion = serde_json::from_slice(body)
            .map_err(|error| CallError::Unreadable(format!("the response is no chat completion: {error}")))?;
        let Usage { prompt_tokens, completion_tokens } = completion.usage.unwrap_or_default();
        let finish_reason = completion.choices.first().and_then(|choice| choice.finish_reason.clone());
        // One was asked for. Several are several scores, which no parser takes.
        let texts = completion.choices.into_iter().map(|choice| choice.message.content.unwrap_or_default());
        let text = texts.collect::<Vec<_>>().join("\n");
        Ok(Reply {
            // Nothing that is recorded may have the key.
            text: self.key.without(&text),
            finish_reason: finish_reason.unwrap_or_default(),
            prompt_tokens,
            reply_tokens: completion_tokens,
        })
    }

    /// A text of the endpoint for a message.
    fn shown(&self, text: &str) -> String {
        one_line(&self.key.without(text), MAX_WORDS).into_owned()
    }
}

/// The body, or `None` where it is too long.
async fn read(response: &mut Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > MAX_RESPONSE {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// The message in an error's body.
fn message_of(body: &[u8]) -> String {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let message = parsed.as_ref().and_then(|value| {
        let error = value.get("error").or_else(|| value.get("detail")).or_else(|| value.get("message"))?;
        Some(error.get("message").unwrap_or(error).as_str().map_or_else(|| error.to_string(), str::to_owned))
    });
    message.unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned())
}

/// An error with what caused it, without the URL.
fn in_words(error: &reqwest::Error) -> String {
    let mut words = if error.is_connect() { "no connection" } else { "broken off" }.to_owned();
    let mut source = error.source();
    while let Some(error) = source {
        words.push_str(&format!(": {error}"));
        source = error.source();
    }
    words
}

/// The parts of a chat completion that are read.
#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
}
