//! `evenkeel health`: whether servers are well, as one line and an exit status. For health checks of containers, which
//! have no other program.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use evenkeel_data::read::printable;
use evenkeel_proto::FieldError;
use evenkeel_rpc::client::{ClientSettings, ClientTlsSettings, Connector, Health, ServerAddress};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::arguments::HealthOptions;

/// Time limit of one answer.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of the first line of an answer over HTTP.
const MAX_BYTES: u64 = 1 << 10;
const ALLOWED: &str = "http://HOST:PORT (gRPC), http://HOST:PORT/PATH (HTTP), and the same with https";

#[derive(Debug, PartialEq, Eq)]
enum HealthProbe<'u> {
    /// The health of a gRPC server.
    Grpc(&'u str),
    Http {
        encrypted: bool,
        address: &'u str,
        path: &'u str,
    },
}

impl<'u> HealthProbe<'u> {
    /// # Errors
    /// Neither form.
    fn of(url: &'u str) -> Result<Self, FieldError> {
        let refused = || FieldError::quoted("URL", url, ALLOWED);
        let (scheme, rest) = url.split_once("://").ok_or_else(refused)?;
        let is_plain = !url.chars().any(|character| character.is_whitespace() || character.is_control());
        match (scheme, rest.find('/')) {
            ("http" | "https", None) if is_plain => Ok(Self::Grpc(url)),
            ("http" | "https", Some(at)) if is_plain && rest[..at].contains(':') => {
                Ok(Self::Http { encrypted: scheme == "https", address: &rest[..at], path: &rest[at..] })
            }
            _ => Err(refused()),
        }
    }
}

/// Asks each, and fails at the first that is not well.
pub(crate) async fn check(options: &HealthOptions) -> Result<ExitCode> {
    let tls = options.ca.clone().map(|ca_file| ClientTlsSettings {
        ca_file,
        server_name: options.server_name.clone(),
        certificate_file: options.certificate.clone(),
        key_file: options.key.clone(),
    });
    let connector =
        Connector::new("--", ClientSettings { connect_timeout: HEALTH_TIMEOUT, tls, ..ClientSettings::default() })?;
    for url in &options.urls {
        let what = match HealthProbe::of(url)? {
            HealthProbe::Grpc(url) => grpc(&connector, url, &options.service).await?,
            HealthProbe::Http { encrypted, address, path } => {
                let answer = tokio::time::timeout(HEALTH_TIMEOUT, http(&connector, encrypted, address, path)).await;
                answer
                    .with_context(|| format!("{url} did not answer within {HEALTH_TIMEOUT:?}"))?
                    .context(url.clone())?
            }
        };
        print_out!("{url} {what}");
    }
    Ok(ExitCode::SUCCESS)
}

async fn grpc(connector: &Connector, url: &str, service: &str) -> Result<&'static str> {
    match connector.health(&ServerAddress::new(url), service).await? {
        Health::Serving => Ok("is serving"),
        Health::NotServing => bail!("{url} responds but is not serving"),
        Health::UnknownService => bail!("{url} has no service `{}`", printable(service)),
        Health::Failed(message) => bail!("{url}: {}", printable(&message)),
    }
}

/// One request over a connection of its own.
async fn http(connector: &Connector, encrypted: bool, address: &str, path: &str) -> Result<&'static str> {
    let stream = TcpStream::connect(address).await?;
    if !encrypted {
        return get(stream, address, path).await;
    }
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    get(connector.encrypt_http1(host, stream).await?, address, path).await
}

async fn get(mut stream: impl AsyncRead + AsyncWrite + Unpin, address: &str, path: &str) -> Result<&'static str> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut line = Vec::new();
    BufReader::new(stream.take(MAX_BYTES)).read_until(b'\n', &mut line).await?;
    let line = String::from_utf8_lossy(&line);
    let line = line.trim_end();
    match line.split(' ').nth(1) {
        Some("200") if line.starts_with("HTTP/1.") => Ok("answers 200"),
        Some(status) if line.starts_with("HTTP/1.") => bail!("it answers {}", printable(status)),
        _ => bail!("the response is not HTTP"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_a_path_is_a_page_and_one_without_is_a_server() {
        assert_eq!(HealthProbe::of("http://127.0.0.1:1").unwrap(), HealthProbe::Grpc("http://127.0.0.1:1"));
        assert_eq!(HealthProbe::of("https://reward:1").unwrap(), HealthProbe::Grpc("https://reward:1"));
        let page = |encrypted, address, path| HealthProbe::Http { encrypted, address, path };
        assert_eq!(HealthProbe::of("http://[::1]:8000/health?a=b").unwrap(), page(false, "[::1]:8000", "/health?a=b"));
        assert_eq!(HealthProbe::of("https://engine:1/health").unwrap(), page(true, "engine:1", "/health"));
        for url in ["", "reward:50052", "ftp://a:1/b", "http://a/b", "https://a/b", "http://a:1/b c"] {
            let error = HealthProbe::of(url).unwrap_err().to_string();
            assert!(error.starts_with(&format!("URL is {url:?}, allowed: http://HOST:PORT")), "{error}");
        }
    }
}
