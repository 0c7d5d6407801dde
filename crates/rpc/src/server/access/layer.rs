//! Bearer tokens: every call except health checks must carry it.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use evenkeel_files::Secret;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::files::{FileError, read_token};

/// Health probes carry no token.
const HEALTH_PREFIX: &str = "/grpc.health.v1.Health/";

/// Refuses calls without the token, if there is one.
#[derive(Debug, Clone, Default)]
pub(super) struct AuthLayer {
    expected: Option<Secret>,
}

impl AuthLayer {
    pub(super) fn from_file(section: &str, path: Option<&Path>) -> Result<Self, FileError> {
        let expected = path.map(|path| read_token(&format!("{section}.token_file"), path)).transpose()?;
        Ok(Self { expected })
    }
}

impl<S> Layer<S> for AuthLayer {
    type Service = AuthService<S>;

    fn layer(&self, inner: S) -> AuthService<S> {
        AuthService { inner, expected: self.expected.clone() }
    }
}

/// The service that the layer protects.
#[derive(Debug, Clone)]
pub(super) struct AuthService<S> {
    inner: S,
    expected: Option<Secret>,
}

impl<S, B> Service<Request<B>> for AuthService<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let given = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let allowed = match &self.expected {
            None => true,
            Some(_) if request.uri().path().starts_with(HEALTH_PREFIX) => true,
            Some(expected) => given.is_some_and(|given| expected.is_bearer(given)),
        };
        if allowed {
            return Box::pin(self.inner.call(request));
        }
        metrics::counter!("evenkeel_grpc_unauthenticated_total").increment(1);
        let status = Status::unauthenticated("a bearer token is required, in the header `authorization`");
        Box::pin(std::future::ready(Ok(status.into_http())))
    }
}
