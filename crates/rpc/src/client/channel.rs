//! From an endpoint to a channel.

use evenkeel_config::human;
use http::Uri;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use super::{ClientError, ClientSettings, ClientTlsSettings, Headers, chain};
use crate::files::{read, read_token};

/// What generated clients are made of: `RewardClient::new(channel)`.
pub type ClientChannel = InterceptedService<Channel, Headers>;

/// One server to connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Its URL.
    pub url: String,
    /// The host that its certificate must name, where the URL holds an address that was found for that name.
    pub host: Option<String>,
}

impl Target {
    /// A server by its URL.
    pub fn url(url: impl Into<String>) -> Self {
        Self { url: url.into(), host: None }
    }
}

/// Makes channels by one set of settings.
#[derive(Debug, Clone)]
pub struct Connector {
    settings: ClientSettings,
    headers: Headers,
    tls: Option<ClientTlsConfig>,
}

impl Connector {
    /// Reads the files that the settings name. `section` is their path, for messages: `reward.client`.
    pub fn new(section: &str, settings: ClientSettings) -> Result<Self, ClientError> {
        let token = settings
            .token_file
            .as_deref()
            .map(|path| read_token(&format!("{section}.token_file"), path))
            .transpose()?;
        Ok(Self {
            headers: Headers::new(token.as_ref()),
            tls: settings.tls.as_ref().map(|tls| load_tls(section, tls)).transpose()?,
            settings,
        })
    }

    /// A connection that stands.
    pub async fn connect(&self, target: &Target) -> Result<ClientChannel, ClientError> {
        let endpoint = self.endpoint(target)?;
        let connected = tokio::time::timeout(self.settings.connect_timeout, endpoint.connect()).await;
        let failed = |message: String| ClientError::Connect { url: target.url.clone(), message };
        match connected {
            Ok(Ok(channel)) => Ok(InterceptedService::new(channel, self.headers.clone())),
            Ok(Err(error)) => Err(failed(chain(&error))),
            Err(_) => Err(failed(format!("no answer within {}", human(self.settings.connect_timeout)))),
        }
    }

    /// A channel that connects at its first call, and again after its connection was lost.
    pub fn connect_lazy(&self, target: &Target) -> Result<ClientChannel, ClientError> {
        Ok(InterceptedService::new(self.endpoint(target)?.connect_lazy(), self.headers.clone()))
    }

    /// The settings' limit for `max_decoding_message_size` and `max_encoding_message_size`.
    pub fn max_message(&self) -> usize {
        self.settings.max_message.bytes_usize()
    }

    fn endpoint(&self, target: &Target) -> Result<Endpoint, ClientError> {
        let secure = check_url(&target.url)?;
        let invalid = |_| ClientError::Url { url: target.url.clone() };
        let mut endpoint = Endpoint::from_shared(target.url.clone())
            .map_err(invalid)?
            .connect_timeout(self.settings.connect_timeout)
            .tcp_nodelay(true);
        if !self.settings.keepalive_interval.is_zero() {
            endpoint = endpoint
                .http2_keep_alive_interval(self.settings.keepalive_interval)
                .keep_alive_timeout(self.settings.keepalive_timeout)
                // A worker that died while it had nothing to do must be found out before it gets something.
                .keep_alive_while_idle(true);
        }
        if secure { self.secure(endpoint, target) } else { Ok(endpoint) }
    }

    fn secure(&self, endpoint: Endpoint, target: &Target) -> Result<Endpoint, ClientError> {
        let failed = |message: String| ClientError::Tls { url: target.url.clone(), message };
        let Some(tls) = &self.tls else { return Err(failed("the settings hold no certificates (`tls`)".to_owned())) };
        let named = self.settings.tls.as_ref().and_then(|tls| tls.server_name.as_ref());
        let tls = match named.or(target.host.as_ref()) {
            None => tls.clone(),
            Some(name) => tls.clone().domain_name(name),
        };
        endpoint.tls_config(tls).map_err(|error| failed(chain(&error)))
    }
}

/// Whether the URL asks for TLS.
fn check_url(url: &str) -> Result<bool, ClientError> {
    let invalid = || ClientError::Url { url: url.to_owned() };
    let uri: Uri = url.parse().map_err(|_| invalid())?;
    let secure = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(invalid()),
    };
    let plain_path = matches!(uri.path(), "" | "/") && uri.query().is_none();
    let named = uri.host().is_some_and(|host| !host.is_empty());
    if named && uri.port_u16().is_some() && plain_path { Ok(secure) } else { Err(invalid()) }
}

fn load_tls(section: &str, settings: &ClientTlsSettings) -> Result<ClientTlsConfig, ClientError> {
    let authority = Certificate::from_pem(read(&format!("{section}.tls.ca_file"), &settings.ca_file)?);
    let tls = ClientTlsConfig::new().ca_certificate(authority);
    let (Some(certificate), Some(key)) = (&settings.certificate_file, &settings.key_file) else { return Ok(tls) };
    let certificate = read(&format!("{section}.tls.certificate_file"), certificate)?;
    let key = read(&format!("{section}.tls.key_file"), key)?;
    Ok(tls.identity(Identity::from_pem(certificate, key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_scheme_host_and_port() {
        assert!(!check_url("http://reward:50051").unwrap());
        assert!(check_url("https://[::1]:443/").unwrap());
        for url in ["", "reward:50051", "http://reward", "ftp://reward:1", "http://reward:1/path", "http://:1"] {
            let error = check_url(url).unwrap_err().to_string();
            assert_eq!(error, format!("`{url}` is not an endpoint, allowed: http://HOST:PORT or https://HOST:PORT"));
        }
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_named() {
        let connector = Connector::new("client", ClientSettings::default()).unwrap();
        let error = connector.connect(&Target::url("http://127.0.0.1:1")).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot connect to http://127.0.0.1:1: "), "{error}");
        assert!(error.contains("Connection refused"), "{error}");
    }
}
