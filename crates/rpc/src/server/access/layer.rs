//! Refuses calls of callers that may not make them.

use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use super::HttpTokenAuth;
use super::credentials::Credentials;
use super::methods::{OPEN, least_role};
use crate::BoxFuture;
use crate::error::ServiceError;
use crate::files::FileError;
use crate::private::PrivateAddress;
use crate::server::connections::ConnectionHandle;
use crate::server::settings::AuthSettings;

/// Refuses calls whose callers do not have the role of the method, where the settings give roles.
#[derive(Debug, Clone, Default)]
pub(in crate::server) struct AccessLayer {
    credentials: Option<Arc<Credentials>>,
    /// Whether tokens have roles, so that `/metrics` asks for one.
    has_token_roles: bool,
}

impl AccessLayer {
    /// Reads the files of the settings.
    pub(in crate::server) fn open(
        section: &str,
        token_file: Option<&Path>,
        settings: &AuthSettings,
    ) -> Result<Self, FileError> {
        let credentials = Credentials::open(section, token_file, settings)?.map(Arc::new);
        Ok(Self { credentials, has_token_roles: !settings.tokens.is_empty() })
    }

    /// Lets in clients of this process alone.
    pub(in crate::server) fn private(address: &PrivateAddress) -> Self {
        let credentials = Some(Arc::new(Credentials::private(address.tokens())));
        Self { credentials, has_token_roles: false }
    }

    /// The auth of `/metrics`: a token of a reader or a higher role once tokens have roles, also if none has that role.
    /// Scrapers of a server with a `token_file` alone, or with certificates, need no token.
    pub(in crate::server) fn metrics_auth(&self) -> HttpTokenAuth {
        let credentials = self.credentials.as_ref().filter(|_| self.has_token_roles);
        credentials.map_or_else(HttpTokenAuth::disabled, |credentials| HttpTokenAuth::new(credentials.readers()))
    }
}

impl<S> Layer<S> for AccessLayer {
    type Service = AccessService<S>;

    fn layer(&self, inner: S) -> AccessService<S> {
        AccessService { inner, credentials: self.credentials.clone() }
    }
}

/// The service that the layer protects.
#[derive(Debug, Clone)]
pub(in crate::server) struct AccessService<S> {
    inner: S,
    credentials: Option<Arc<Credentials>>,
}

impl<S> AccessService<S> {
    fn check<B>(&self, request: &Request<B>) -> Result<(), ServiceError> {
        let Some(credentials) = &self.credentials else { return Ok(()) };
        let method = request.uri().path().trim_start_matches('/');
        if method.starts_with(OPEN) {
            return Ok(());
        }
        let connection = request.extensions().get::<ConnectionHandle>();
        let names = connection.map(ConnectionHandle::names).unwrap_or_default();
        let authorization = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let role = credentials.role(authorization, names)?;
        let needed = least_role(method);
        if role >= needed {
            Ok(())
        } else {
            Err(ServiceError::Forbidden { method: method.to_owned(), role: role.name(), needed: needed.name() })
        }
    }
}

impl<S, B> Service<Request<B>> for AccessService<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Err(refusal) = self.check(&request) else { return Box::pin(self.inner.call(request)) };
        if matches!(refusal, ServiceError::Unauthenticated { .. }) {
            metrics::counter!("evenkeel_grpc_unauthenticated_total").increment(1);
        }
        tracing::debug!(%refusal, "a call is refused");
        Box::pin(std::future::ready(Ok(Status::from(refusal).into_http())))
    }
}
