//! HTTP clients: connection pools, and a count of the connections opened.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use evenkeel_rpc::BoxFuture;
use evenkeel_rpc::client::ServerAddress;
use evenkeel_rpc::reload::BearerTokens;
use evenkeel_rpc::server::ServerError;
use tower_layer::Layer;
use tower_service::Service;

use crate::GenerationError;
use crate::engine::EngineClientError;
use crate::settings::{EngineClientSettings, GenerationSettings};

/// Largest file of certificates.
const MAX_CERTIFICATES_BYTES: u64 = 1 << 20;

/// How many connections were opened. If none was opened since, the engine has not restarted.
#[derive(Debug, Clone, Default)]
pub(in crate::engine) struct ConnectionCounter(Arc<AtomicU64>);

impl ConnectionCounter {
    pub(in crate::engine) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

impl<S> Layer<S> for ConnectionCounter {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, counter: self.clone() }
    }
}

/// A connector whose connections are counted.
#[derive(Debug, Clone)]
pub(in crate::engine) struct Counted<S> {
    inner: S,
    counter: ConnectionCounter,
}

impl<S, T> Service<T> for Counted<S>
where
    S: Service<T>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, target: T) -> Self::Future {
        let connecting = self.inner.call(target);
        let counter = self.counter.clone();
        Box::pin(async move {
            let connection = connecting.await?;
            // Counted before anything can be sent over it.
            counter.0.fetch_add(1, Ordering::Release);
            Ok(connection)
        })
    }
}

/// The API key of the settings, read again when its file changes, and their certificates, read once.
#[derive(Debug, Clone)]
pub(in crate::engine) struct HttpFiles {
    key: Option<BearerTokens>,
    ca: Vec<reqwest::Certificate>,
}

impl HttpFiles {
    pub(in crate::engine) fn read(settings: &GenerationSettings) -> Result<Self, GenerationError> {
        let key = settings.api_key_file.as_deref().map(|path| BearerTokens::open("generation.api_key_file", path));
        let key = key.transpose().map_err(ServerError::from)?;
        Ok(Self { key, ca: settings.ca_file.as_deref().map(read_certificates).transpose()?.unwrap_or_default() })
    }

    /// The key that requests carry.
    pub(in crate::engine) fn key(&self) -> Option<BearerTokens> {
        self.key.clone()
    }

    /// A client for one engine, and the base URL of its requests: the address, or the name that led to it if a
    /// certificate has to match that.
    pub(in crate::engine) fn client(
        &self,
        settings: &EngineClientSettings,
        address: &ServerAddress,
        counter: Option<ConnectionCounter>,
    ) -> Result<(String, reqwest::Client), EngineClientError> {
        // An error only says that a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .connect_timeout(settings.connect_timeout)
            .pool_idle_timeout(settings.idle_connection_timeout)
            .tcp_nodelay(true)
            // Engines are only where the settings say.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy();
        if !self.ca.is_empty() {
            builder = builder.tls_certs_only(self.ca.iter().cloned());
        }
        if let Some(counter) = counter {
            builder = builder.connector_layer(counter);
        }
        let mut base = address.url.clone();
        if let (Some(host), Some(Ok(at))) =
            (&address.host, address.url.strip_prefix("https://").map(str::parse::<SocketAddr>))
        {
            builder = builder.resolve(host, at);
            base = format!("https://{host}:{}", at.port());
        }
        Ok((base, builder.build().map_err(no_client)?))
    }
}

fn no_client(error: reqwest::Error) -> EngineClientError {
    EngineClientError::NoClient { message: super::with_sources(error) }
}

fn read_certificates(path: &Path) -> Result<Vec<reqwest::Certificate>, GenerationError> {
    let failed = |message: String| GenerationError::File { setting: "ca_file", path: path.to_owned(), message };
    let bytes = evenkeel_host::read(path, MAX_CERTIFICATES_BYTES).map_err(|error| failed(format!("it {error}")))?;
    match reqwest::Certificate::from_pem_bundle(&bytes) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(failed("it contains no certificate, allowed: PEM".to_owned())),
        Err(error) => Err(failed(error.to_string())),
    }
}
