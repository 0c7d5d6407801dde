//! The API key, as in vLLM's `--api-key`.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use evenkeel_proto::FieldError;
use serde_json::json;
use subtle::ConstantTimeEq;

use super::error::json_response;

/// Longest key file, in bytes.
const MAX_BYTES: u64 = 4096;
/// Routes without secrets or work, which need no key in vLLM either: probes, metrics, version.
const OPEN: &[&str] = &["/health", "/ping", "/version", "/load", "/metrics"];

/// A key that requests must carry.
#[derive(Clone)]
pub(crate) struct ApiKey(Arc<[u8]>);

impl ApiKey {
    /// Reads the only line of a file.
    pub(crate) fn read(path: &Path) -> Result<Self, FieldError> {
        let refused = |what: String| {
            FieldError::new("api_key_file", format_args!("{}, which {what}", path.display()), "a file with one line")
        };
        let is_file = std::fs::metadata(path).map_err(|error| refused(format!("cannot be read: {error}")))?.is_file();
        if !is_file {
            return Err(refused("is no regular file".to_owned()));
        }
        let mut text = String::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text))
            .map_err(|error| refused(format!("cannot be read: {error}")))?;
        let key = text.trim_end_matches(['\r', '\n']);
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(refused("holds something else than visible ASCII characters".to_owned()));
        }
        Ok(Self(key.as_bytes().into()))
    }

    /// In constant time for keys of the same length.
    fn fits(&self, authorization: &[u8]) -> bool {
        let space = authorization.iter().position(|&byte| byte == b' ');
        let Some((scheme, key)) = space.and_then(|at| authorization.split_at_checked(at)) else { return false };
        scheme.eq_ignore_ascii_case(b"bearer") && key.get(1..).is_some_and(|key| bool::from(key.ct_eq(&self.0)))
    }
}

/// Passes requests with the key, and those that need none.
pub(super) async fn authorize(State(key): State<Option<ApiKey>>, request: Request, next: Next) -> Response {
    let Some(key) = key else { return next.run(request).await };
    let is_open = OPEN.contains(&request.uri().path()) || request.method() == Method::OPTIONS;
    if is_open || request.headers().get(AUTHORIZATION).is_some_and(|value| key.fits(value.as_bytes())) {
        return next.run(request).await;
    }
    json_response(StatusCode::UNAUTHORIZED, json!({"error": "Unauthorized"}).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Result<ApiKey, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        ApiKey::read(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_has_one_key() {
        assert!(key("secret\n").is_ok_and(|key| key.fits(b"Bearer secret")));
        for text in ["", "\n", "two words", "two\nlines", "schl\u{fc}ssel"] {
            assert!(key(text).is_err(), "{text:?}");
        }
        assert!(ApiKey::read(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn only_the_whole_key_fits() {
        let key = key("secret").unwrap();
        assert!(key.fits(b"bearer secret"));
        for header in
            ["", "secret", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Basic secret", "Bearer  secret"]
        {
            assert!(!key.fits(header.as_bytes()), "{header:?}");
        }
    }
}
