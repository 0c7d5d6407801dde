//! Channels to servers.

use std::time::Duration;

use evenkeel_config::human;
use http::Uri;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

use super::tls::{ClientCertificates, Encrypted, TlsError};
use super::{ClientError, ClientSettings, Headers, chain};
use crate::BoxFuture;
use crate::reload::BearerTokens;

/// The channel of generated clients: `RewardClient::new(channel)`.
pub type ClientChannel = InterceptedService<Channel, Headers>;

/// How the address of a socket of this machine begins, before its path.
pub const SOCKET: &str = "unix:";

/// The address of one server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerAddress {
    /// The URL, `http://HOST:PORT` or `https://HOST:PORT`; or `unix:PATH`, a program that this process has started.
    pub url: String,
    /// The name that the address in the URL was resolved from; its certificate must be issued for it.
    pub host: Option<String>,
}

impl ServerAddress {
    /// A server whose certificate is issued for the host of the URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), host: None }
    }
}

/// Bytes that a server may send ahead on one stream, and over all streams of a connection, where answers are large:
/// with HTTP/2's 64 KiB a network with a latency of 1 ms would carry 64 MB/s.
const LARGE_WINDOWS: (u32, u32) = (8 << 20, 32 << 20);
/// Bytes of one HTTP/2 frame there: each is a call of the system on both sides, and the default has 16 KiB.
const LARGE_FRAME: u32 = 256 << 10;

/// Opens channels with the settings of a client.
#[derive(Debug, Clone)]
pub struct Connector {
    settings: ClientSettings,
    large_answers: bool,
    tokens: Option<BearerTokens>,
    certificates: Option<ClientCertificates>,
}

impl Connector {
    /// Reads the files that the settings name. `section` is their path, for messages: `reward.client`.
    pub fn new(section: &str, settings: ClientSettings) -> Result<Self, ClientError> {
        let tokens = settings.token_file.as_deref();
        let tokens = tokens.map(|path| BearerTokens::open(&format!("{section}.token_file"), path)).transpose()?;
        Ok(Self {
            tokens,
            certificates: settings.tls.as_ref().map(|tls| ClientCertificates::open(section, tls)).transpose()?,
            settings,
            large_answers: false,
        })
    }

    /// Allows more answers in flight, for streams of large ones.
    #[must_use]
    pub fn for_large_answers(self) -> Self {
        Self { large_answers: true, ..self }
    }

    /// Opens a connection. The future is boxed, as others of this module are, so that the transport is compiled once,
    /// here, and not in each crate that awaits it.
    pub fn connect<'a>(&'a self, address: &'a ServerAddress) -> BoxFuture<'a, Result<ClientChannel, ClientError>> {
        Box::pin(async move {
            let (endpoint, encrypted) = self.endpoint(address)?;
            let connecting = async {
                match encrypted {
                    None => endpoint.connect().await,
                    Some(encrypted) => endpoint.connect_with_connector(encrypted).await,
                }
            };
            let connected = tokio::time::timeout(self.settings.connect_timeout, connecting).await;
            let failed = |message: String| ClientError::Connect { url: address.url.clone(), message };
            match connected {
                Ok(Ok(channel)) => Ok(self.intercepted(channel, address)),
                Ok(Err(error)) => Err(failed(chain(&error))),
                Err(_) => Err(failed(format!("no answer within {}", human(self.settings.connect_timeout)))),
            }
        })
    }

    /// A channel that connects with its first call and reconnects after its connection was lost.
    pub fn connect_lazy(&self, address: &ServerAddress) -> Result<ClientChannel, ClientError> {
        let channel = match self.endpoint(address)? {
            (endpoint, None) => endpoint.connect_lazy(),
            (endpoint, Some(encrypted)) => endpoint.connect_with_connector_lazy(encrypted),
        };
        Ok(self.intercepted(channel, address))
    }

    fn intercepted(&self, channel: Channel, address: &ServerAddress) -> ClientChannel {
        InterceptedService::new(channel, Headers::new(self.tokens.clone(), &address.url))
    }

    /// Encrypts a connection for HTTP/1.1 with the certificates of the settings. The server's certificate must be
    /// issued for `host`, unless the settings name another.
    ///
    /// # Errors
    /// Settings without certificates, a server certificate that is not accepted.
    pub fn encrypt_http1<'a>(
        &'a self,
        host: &'a str,
        stream: TcpStream,
    ) -> BoxFuture<'a, Result<TlsStream<TcpStream>, ClientError>> {
        Box::pin(async move {
            let failed = |source| ClientError::Tls { url: format!("https://{host}"), source };
            let name = self.settings.tls.as_ref().and_then(|tls| tls.server_name.as_deref()).unwrap_or(host);
            self.certificates().map_err(failed)?.over_http1(name, stream).await.map_err(failed)
        })
    }

    /// `max_message` of the settings in bytes, for `max_decoding_message_size` and `max_encoding_message_size`.
    pub fn max_message(&self) -> usize {
        self.settings.max_message.bytes_usize()
    }

    pub(super) fn connect_timeout(&self) -> Duration {
        self.settings.connect_timeout
    }

    /// Where the server is, and how a connection to it is encrypted.
    fn endpoint(&self, address: &ServerAddress) -> Result<(Endpoint, Option<Encrypted>), ClientError> {
        let (mut endpoint, encrypted) = self.destination(address)?;
        endpoint = endpoint.connect_timeout(self.settings.connect_timeout).tcp_nodelay(true);
        if self.large_answers {
            let (stream, connection) = LARGE_WINDOWS;
            endpoint = endpoint
                .initial_stream_window_size(stream)
                .initial_connection_window_size(connection)
                .max_frame_size(LARGE_FRAME);
        }
        if !self.settings.keepalive_interval.is_zero() {
            endpoint = endpoint
                .http2_keep_alive_interval(self.settings.keepalive_interval)
                .keep_alive_timeout(self.settings.keepalive_timeout)
                // A dead worker must be detected before it gets an item.
                .keep_alive_while_idle(true);
        }
        Ok((endpoint, encrypted))
    }

    fn destination(&self, address: &ServerAddress) -> Result<(Endpoint, Option<Encrypted>), ClientError> {
        let invalid = || ClientError::Url { url: address.url.clone() };
        if address.url.starts_with(SOCKET) {
            return Ok((Endpoint::from_shared(address.url.clone()).map_err(|_| invalid())?, None));
        }
        let secure = validate_url(&address.url)?;
        let url: Uri = address.url.parse().map_err(|_| invalid())?;
        if !secure {
            return Ok((Endpoint::from(url), None));
        }
        // The transport does not get our certificates, so to it the connection must look like plaintext.
        let plain: Uri = address.url.replacen("https", "http", 1).parse().map_err(|_| invalid())?;
        Ok((Endpoint::from(plain).origin(url.clone()), Some(self.encrypted(&url, address)?)))
    }

    fn encrypted(&self, url: &Uri, address: &ServerAddress) -> Result<Encrypted, ClientError> {
        let failed = |source| ClientError::Tls { url: address.url.clone(), source };
        let certificates = self.certificates().map_err(failed)?;
        let named = self.settings.tls.as_ref().and_then(|tls| tls.server_name.as_deref());
        let name = named.or(address.host.as_deref()).or(url.host()).unwrap_or_default();
        certificates.to(name).map_err(failed)
    }

    fn certificates(&self) -> Result<&ClientCertificates, TlsError> {
        self.certificates.as_ref().ok_or(TlsError::NoCertificates)
    }
}

/// Whether a URL uses TLS. Refuses anything but scheme, host and port, names and passwords included.
fn validate_url(url: &str) -> Result<bool, ClientError> {
    let invalid = || ClientError::Url { url: url.to_owned() };
    let uri: Uri = url.parse().map_err(|_| invalid())?;
    let secure = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(invalid()),
    };
    let plain_path = matches!(uri.path(), "" | "/") && uri.query().is_none();
    let named =
        uri.host().is_some_and(|host| !host.is_empty()) && !uri.authority().is_some_and(|at| at.as_str().contains('@'));
    if named && uri.port_u16().is_some() && plain_path { Ok(secure) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_scheme_host_and_port() {
        assert!(!validate_url("http://reward:50051").unwrap());
        assert!(validate_url("https://[::1]:443/").unwrap());
        for url in [
            "",
            "reward:50051",
            "http://reward",
            "ftp://reward:1",
            "http://reward:1/path",
            "http://:1",
            "http://a:b@reward:1",
        ] {
            let error = validate_url(url).unwrap_err().to_string();
            assert_eq!(error, format!("`{url}` is not an endpoint, allowed: http://HOST:PORT or https://HOST:PORT"));
        }
    }

    #[tokio::test]
    async fn the_error_names_a_server_that_cannot_be_reached() {
        let connector = Connector::new("client", ClientSettings::default()).unwrap();
        let error = connector.connect(&ServerAddress::new("http://127.0.0.1:1")).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot connect to http://127.0.0.1:1: "), "{error}");
        assert!(error.contains("Connection refused"), "{error}");
    }
}
