//! Requests to the hub.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderValue, RANGE};
use reqwest::{Client, Response, StatusCode};

use crate::environment::Environment;
use crate::error::HubError;

/// Longest answer that is not a file, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// How long requests wait for the hub, and how often they are tried again.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Longest wait for a connection.
    pub connect: Duration,
    /// Longest wait from one piece of an answer to the next.
    pub read: Duration,
    /// Time within which a file must grow by `least` bytes.
    pub window: Duration,
    /// Bytes by which a file must grow within `window`.
    pub least: u64,
    /// Wait before the second attempt; it doubles with each further one.
    pub delay: Duration,
    /// Attempts one after the other without a byte of progress.
    pub attempts: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            read: Duration::from_secs(30),
            window: Duration::from_secs(60),
            least: 64 << 10,
            delay: Duration::from_secs(1),
            attempts: 5,
        }
    }
}

/// A client of the hub with its token.
pub(crate) struct Requests {
    client: Client,
    authorization: Option<HeaderValue>,
}

impl Requests {
    pub(crate) fn new(environment: &Environment, retries: &RetryPolicy) -> Result<Self, HubError> {
        // An error only says that a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let failed = |reason: String| HubError::Unreachable { url: HubError::url(&environment.endpoint), reason };
        let client = Client::builder()
            .user_agent(concat!("evenkeel/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(retries.connect)
            .read_timeout(retries.read)
            // reqwest leaves the token out where a redirect leads to another host. None leads from https to plaintext.
            .https_only(environment.is_encrypted())
            .redirect(reqwest::redirect::Policy::limited(5))
            .build()
            .map_err(|error| failed(in_words(&error)))?;
        if let Some(warning) = environment.plaintext_warning() {
            tracing::warn!("{warning}");
        }
        let authorization = environment.token.as_ref().and_then(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        Ok(Self { client, authorization })
    }

    /// The answer to a request, from a byte of the file on.
    ///
    /// # Errors
    /// [`HubError::Unreachable`], also for answers that another attempt may not have; [`HubError::Refused`].
    pub(crate) async fn get(&self, url: &str, from: u64) -> Result<Response, HubError> {
        let mut request = self.client.get(url);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        let response = request.send().await.map_err(|error| unreachable(url, &error))?;
        let status = response.status();
        if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
            return Ok(response);
        }
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(HubError::Unreachable { url: HubError::url(url), reason: format!("the hub answers {status}") });
        }
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let reason = reason(status, header("x-error-code"), self.authorization.is_some());
        Err(HubError::Refused { url: HubError::url(url), status: status.as_u16(), reason })
    }

    /// A whole answer that is no file.
    ///
    /// # Errors
    /// As [`get`](Self::get), and for one that is too long.
    pub(crate) async fn answer(&self, url: &str) -> Result<Vec<u8>, HubError> {
        let mut response = self.get(url, 0).await?;
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| unreachable(url, &error))? {
            if body.len() + piece.len() > MAX_ANSWER {
                let reason = format!("the answer has more than {MAX_ANSWER} bytes");
                return Err(HubError::Answer { url: HubError::url(url), reason });
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }
}

pub(crate) fn unreachable(url: &str, error: &reqwest::Error) -> HubError {
    HubError::Unreachable { url: HubError::url(url), reason: in_words(error) }
}

/// What a refusal means.
fn reason(status: StatusCode, code: Option<&str>, has_token: bool) -> String {
    let words = match (status, code, has_token) {
        (_, Some("RepoNotFound"), _) | (StatusCode::UNAUTHORIZED, _, true) => {
            "no such model, or none that this token may read, allowed: OWNER/NAME of a model of the hub"
        }
        (StatusCode::UNAUTHORIZED, ..) => {
            "no such model, or one that asks for a token, allowed: HF_TOKEN of a user who may read it"
        }
        (StatusCode::FORBIDDEN, ..) => {
            "the model is gated, allowed: HF_TOKEN of a user to whom its owner has given access"
        }
        (_, Some("RevisionNotFound"), _) => "no such revision, allowed: a branch, a tag or a commit of the model",
        (StatusCode::NOT_FOUND, ..) => "no such model, revision or file",
        _ => "unexpected",
    };
    words.to_owned()
}

/// An error with what caused it, without the URL, which is named beside it.
fn in_words(error: &reqwest::Error) -> String {
    let mut words = match (error.is_timeout(), error.is_connect()) {
        (true, _) => "no answer in time".to_owned(),
        (_, true) => "no connection".to_owned(),
        _ => "broken off".to_owned(),
    };
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        words.push_str(&format!(": {error}"));
        source = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use evenkeel_testkit::hub_server::{HubAnswer, Server};

    use super::*;

    /// What a request to `url` comes to where the hub is at `endpoint`.
    fn asked(endpoint: &str, url: &str) -> Result<Vec<u8>, HubError> {
        let variables = [("HF_HOME", "/hf"), ("HF_ENDPOINT", endpoint), ("HF_TOKEN", "hf_secret")];
        let variable =
            |name: &str| variables.iter().find(|(given, _)| *given == name).map(|(_, value)| (*value).into());
        let requests = Requests::new(&Environment::of(variable)?, &RetryPolicy::default())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(requests.answer(url))
    }

    #[test]
    fn errors_and_debug_output_have_no_password_of_a_mirror() {
        let server = Server::start(|_| HubAnswer::refused(404, "EntryNotFound"));
        let endpoint = server.url.replace("http://", "http://user:s3cret@");
        let error = asked(&endpoint, &format!("{endpoint}/api")).unwrap_err();
        assert!(matches!(error, HubError::Refused { .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret") && error.to_string().contains("***@"), "{error}");
        let error = asked("https://user:s3cret@hub.example", &endpoint).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        let variables = |name: &str| match name {
            "HF_HOME" => Some("/hf".into()),
            "HF_ENDPOINT" => Some(endpoint.as_str().into()),
            _ => None,
        };
        assert!(!format!("{:?}", Environment::of(variables).unwrap()).contains("s3cret"));
    }

    #[test]
    fn a_client_of_https_sends_nothing_in_plaintext() {
        let server = Server::start(|_| HubAnswer::of(b"{}".to_vec()));
        let error = asked("https://hub.example", &server.url).unwrap_err();
        assert!(matches!(error, HubError::Unreachable { .. }), "{error}");
        assert!(server.requests().is_empty());
        assert_eq!(asked(&server.url, &server.url).unwrap(), b"{}");
    }
}
