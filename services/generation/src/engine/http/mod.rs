//! HTTP with an engine, for every protocol over it: requests and responses, bounded in time and size.

mod connector;

use std::error::Error;
use std::time::Duration;

use evenkeel_proto::shown::one_line;
use evenkeel_rpc::error::millis;
use evenkeel_rpc::private;
use evenkeel_rpc::reload::BearerTokens;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::Value;

use crate::engine::EngineClientError;
pub(in crate::engine) use connector::{ConnectionCounter, HttpFiles};

/// Longest response to anything but a sample, and longest error body that is read.
const SMALL: usize = 1 << 20;
/// Longest engine message that is passed on, in characters.
const MAX_MESSAGE_CHARS: usize = 400;
/// Longest part of a page that is passed on, in characters.
const MAX_PAGE_CHARS: usize = 80;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[derive(Debug, Clone)]
pub(in crate::engine) struct Http {
    endpoint: String,
    client: Client,
    key: Option<BearerTokens>,
}

impl Http {
    pub(in crate::engine) fn new(endpoint: &str, client: Client, key: Option<BearerTokens>) -> Self {
        // One of this process never gets the key of the settings: somebody else may take its port later.
        let key = key.filter(|_| private::tokens_for(endpoint).is_none());
        Self { endpoint: endpoint.to_owned(), client, key }
    }

    /// A request with the key, as the file holds it now, or with this process's own for an engine of its own.
    fn request(&self, method: Method, target: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{target}", self.endpoint));
        let private = private::tokens_for(&self.endpoint);
        match private.as_ref().or(self.key.as_ref()).and_then(BearerTokens::first) {
            // Marked as sensitive by the client.
            Some(key) => request.bearer_auth(key.expose()),
            None => request,
        }
    }

    /// Sends a body and waits for the header of a successful response.
    pub(in crate::engine) async fn post_json(
        &self,
        route: &'static str,
        body: Vec<u8>,
        traceparent: Option<&str>,
    ) -> Result<Response, EngineClientError> {
        let mut request = self.request(Method::POST, route).header(CONTENT_TYPE, JSON).body(body);
        if let Some(traceparent) = traceparent {
            request = request.header("traceparent", traceparent);
        }
        succeeded(route, request.send().await.map_err(|error| transport(route, error))?).await
    }

    /// Reads the whole response within the timeout.
    pub(in crate::engine) async fn get(
        &self,
        route: &'static str,
        timeout: Duration,
    ) -> Result<Vec<u8>, EngineClientError> {
        let request = self.request(Method::GET, route);
        within(route, timeout, async {
            let response = request.send().await.map_err(|error| transport(route, error))?;
            read_all(route, &mut succeeded(route, response).await?, SMALL).await
        })
        .await
    }

    /// Reads the whole response within the timeout; `None` leaves that to the caller.
    pub(in crate::engine) async fn post(
        &self,
        route: &'static str,
        query: &str,
        body: Option<&Value>,
        timeout: Option<Duration>,
    ) -> Result<Vec<u8>, EngineClientError> {
        let mut request = self.request(Method::POST, &format!("{route}{query}"));
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, JSON).body(body.to_string());
        }
        let exchange = async {
            let response = request.send().await.map_err(|error| transport(route, error))?;
            read_all(route, &mut succeeded(route, response).await?, SMALL).await
        };
        match timeout {
            Some(timeout) => within(route, timeout, exchange).await,
            None => exchange.await,
        }
    }
}

async fn within<T>(
    route: &'static str,
    timeout: Duration,
    exchange: impl Future<Output = Result<T, EngineClientError>>,
) -> Result<T, EngineClientError> {
    let after_ms = millis(timeout);
    tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(EngineClientError::Timeout { route, after_ms }))
}

/// The body, at most `limit` bytes of it.
pub(in crate::engine) async fn read_all(
    route: &'static str,
    response: &mut Response,
    limit: usize,
) -> Result<Vec<u8>, EngineClientError> {
    let announced = response.content_length().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let mut body = Vec::with_capacity(announced.min(limit));
    while let Some(chunk) = response.chunk().await.map_err(|error| transport(route, error))? {
        if body.len() + chunk.len() > limit {
            return Err(EngineClientError::invalid("body", format_args!("over {limit} bytes"), "at most max_answer"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The response, unless its status is an error.
async fn succeeded(route: &'static str, mut response: Response) -> Result<Response, EngineClientError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = read_all(route, &mut response, SMALL).await.unwrap_or_default();
    let message = message_of(&body);
    Err(match status.as_u16() {
        400 | 413 | 422 => EngineClientError::Refused { route, message },
        status => EngineClientError::status(route, status, message),
    })
}

/// The message in an error's body, which engines write in four ways.
pub(in crate::engine) fn message_of(body: &[u8]) -> String {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let message = parsed.as_ref().and_then(|value| {
        let error = value.get("error").or_else(|| value.get("detail")).or_else(|| value.get("message"))?;
        error.get("message").unwrap_or(error).as_str().map(str::to_owned).or_else(|| Some(error.to_string()))
    });
    // A page of a server that is no engine says little, on many lines.
    let text = message.unwrap_or_else(|| {
        let page = String::from_utf8_lossy(body);
        let is_page = page.trim_start().starts_with('<');
        if is_page {
            format!("{} (a page, as of a server that is no engine)", one_line(page.trim(), MAX_PAGE_CHARS))
        } else {
            page.trim().to_owned()
        }
    });
    match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        None if text.is_empty() => "without a message".to_owned(),
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

pub(in crate::engine) fn transport(route: &'static str, error: reqwest::Error) -> EngineClientError {
    EngineClientError::Transport { route, message: with_sources(error) }
}

/// The message of an error with its sources, without which it says little.
pub(in crate::engine) fn with_sources(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let part = error.to_string();
        if !message.contains(&part) {
            message.push_str(": ");
            message.push_str(&part);
        }
        source = error.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::message_of;

    #[test]
    fn the_forms_of_error_bodies_are_understood() {
        assert_eq!(message_of(br#"{"error":{"message":"too long","code":400}}"#), "too long");
        assert_eq!(message_of(br#"{"error":"cannot pause"}"#), "cannot pause");
        assert_eq!(message_of(br#"{"detail":"Not Found"}"#), "Not Found");
        let page = "<html>bad gateway (a page, as of a server that is no engine)";
        assert_eq!(message_of(b"<html>bad gateway"), page);
        assert_eq!(message_of(b""), "without a message");
        assert!(message_of("ä".repeat(10_000).as_bytes()).len() < 1000);
    }
}
