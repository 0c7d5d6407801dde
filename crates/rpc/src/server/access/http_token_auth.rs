//! Tokens for people and dashboards at ports that speak HTTP: the page and `/metrics`.

use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::files::FileError;
use crate::reload::BearerTokens;

/// Lets requests with a token pass: as a bearer token, or as the password of HTTP's basic authentication, which
/// browsers ask for. Disabled (`None`), it lets everything pass; without a token it lets nothing pass.
#[derive(Debug, Clone)]
pub struct HttpTokenAuth(Option<Arc<[BearerTokens]>>);

impl HttpTokenAuth {
    /// Lets every request pass.
    pub fn disabled() -> Self {
        Self(None)
    }

    /// Lets requests with one of these tokens pass: none, if there are no tokens.
    pub(super) fn new(tokens: Vec<BearerTokens>) -> Self {
        Self(Some(tokens.into()))
    }

    /// Checks tokens against the file that a setting names; disabled without a file.
    ///
    /// # Errors
    /// A file that cannot be used.
    pub fn of_file(setting: &str, path: Option<&Path>) -> Result<Self, FileError> {
        let tokens = path.map(|path| BearerTokens::open(setting, path)).transpose()?;
        Ok(tokens.map_or_else(Self::disabled, |tokens| Self::new(vec![tokens])))
    }

    /// Whether requests with these headers pass.
    pub fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(known) = &self.0 else { return true };
        headers.get(AUTHORIZATION).is_some_and(|given| accepts(known, given.as_bytes()))
    }

    pub async fn guard(State(auth): State<Self>, request: Request, next: Next) -> Response {
        if auth.admits(request.headers()) {
            return next.run(request).await;
        }
        let ask = [(WWW_AUTHENTICATE, "Basic realm=\"evenkeel\", charset=\"UTF-8\"")];
        (StatusCode::UNAUTHORIZED, ask, "a token is required, as a bearer token or as the password\n").into_response()
    }
}

/// Whether the value of a header `authorization` has one of the known tokens.
fn accepts(known: &[BearerTokens], authorization: &[u8]) -> bool {
    if known.iter().any(|tokens| tokens.accept_bearer(authorization)) {
        return true;
    }
    let Some((scheme, encoded)) = authorization.split_at_checked(b"Basic ".len()) else { return false };
    let decoded = STANDARD.decode(encoded).ok().filter(|_| scheme.eq_ignore_ascii_case(b"Basic "));
    // The name before the first colon may be anything.
    let password = decoded.as_deref().and_then(after_colon);
    password.is_some_and(|password| known.iter().any(|tokens| tokens.accept(password)))
}

/// The password of `NAME:PASSWORD`.
fn after_colon(pair: &[u8]) -> Option<&[u8]> {
    pair.iter().position(|&byte| byte == b':').map(|at| &pair[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn auth() -> HttpTokenAuth {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), TOKEN).unwrap();
        HttpTokenAuth::of_file("page.token_file", Some(file.path())).unwrap()
    }

    #[test]
    fn a_token_passes_as_bearer_and_as_the_password_of_anybody() {
        let auth = auth();
        let passes = |value: &str| auth.admits(&HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]));
        assert!(passes(&format!("Bearer {TOKEN}")));
        for name in ["", "anybody"] {
            assert!(passes(&format!("Basic {}", STANDARD.encode(format!("{name}:{TOKEN}")))));
        }
        let wrong = [
            format!("Basic {}", STANDARD.encode(TOKEN)),
            format!("Basic {}", STANDARD.encode(format!("x:{TOKEN}0"))),
            format!("Basic {TOKEN}"),
            "Basic ".to_owned(),
            "Bearer x".to_owned(),
        ];
        assert!(!wrong.iter().any(|value| passes(value)));
        assert!(!auth.admits(&HeaderMap::new()));
        assert!(HttpTokenAuth::disabled().admits(&HeaderMap::new()));
    }
}
