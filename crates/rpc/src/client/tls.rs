//! TLS of a client.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::{InvalidDnsNameError, ServerName};
use tower::Service;

use super::ClientTlsSettings;
use crate::BoxFuture;
use crate::files::FileError;
use crate::pem::{HTTP_1, HTTP_2, Named, authorities, certificates, key, mismatch, provider};
use crate::reload::Reloading;

/// Why a connection cannot be encrypted.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The settings name no certificates.
    #[error("the settings have no certificates (`tls`)")]
    NoCertificates,
    /// No certificate can be issued for such a name.
    #[error("`{name}` is not a valid server name: {source}")]
    ServerName {
        name: String,
        /// What is wrong with it.
        source: InvalidDnsNameError,
    },
    /// The server and this client did not agree.
    #[error("{0}")]
    Handshake(#[source] io::Error),
}

/// The certificates of a client. New connections use those that the files hold then.
#[derive(Debug, Clone)]
pub(super) struct ClientCertificates(Reloading<ClientConfig>);

impl ClientCertificates {
    /// Reads the files of the settings.
    pub(super) fn open(section: &str, settings: &ClientTlsSettings) -> Result<Self, FileError> {
        let files = [&settings.certificate_file, &settings.key_file].into_iter().flatten();
        let files: Vec<PathBuf> = files.chain([&settings.ca_file]).cloned().collect();
        let section = format!("{section}.tls");
        let settings = settings.clone();
        Reloading::open(section.clone(), files, move || load(&section, &settings)).map(Self)
    }

    /// Connects to a gRPC server whose certificate must be issued for `name`.
    pub(super) fn to(&self, name: &str) -> Result<Encrypted, TlsError> {
        Ok(Encrypted { certificates: self.clone(), name: server_name(name)? })
    }

    /// Encrypts a connection to a server of HTTP/1.1 whose certificate must be issued for `name`.
    pub(super) async fn over_http1(&self, name: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, TlsError> {
        let mut config = ClientConfig::clone(&self.0.current());
        config.alpn_protocols = vec![HTTP_1.to_vec()];
        let connecting = TlsConnector::from(Arc::new(config)).connect(server_name(name)?, stream);
        connecting.await.map_err(TlsError::Handshake)
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    let unbracketed = name.trim_matches(['[', ']']).to_owned();
    ServerName::try_from(unbracketed).map_err(|source| TlsError::ServerName { name: name.to_owned(), source })
}

fn load(section: &str, settings: &ClientTlsSettings) -> Result<ClientConfig, FileError> {
    let setting = ["ca_file", "certificate_file", "key_file"].map(|key| format!("{section}.{key}"));
    let ca_file = Named { setting: &setting[0], path: &settings.ca_file };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| ca_file.refuse(error))?
        .with_root_certificates(authorities(ca_file)?);
    let mut config = match (&settings.certificate_file, &settings.key_file) {
        (Some(certificate), Some(private)) => {
            let certificate_file = Named { setting: &setting[1], path: certificate };
            let key_file = Named { setting: &setting[2], path: private };
            builder
                .with_client_auth_cert(certificates(certificate_file)?, key(key_file)?)
                .map_err(|error| mismatch(certificate_file, key_file, &error))?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![HTTP_2.to_vec()];
    Ok(config)
}

/// Opens encrypted connections to one server, as often as its channel asks.
#[derive(Debug, Clone)]
pub(super) struct Encrypted {
    certificates: ClientCertificates,
    name: ServerName<'static>,
}

impl Encrypted {
    async fn open(self, host: String, port: u16) -> io::Result<TokioIo<TlsStream<TcpStream>>> {
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::clone(&self.certificates.0.current()));
        let stream = connector.connect(self.name, stream).await?;
        if stream.get_ref().1.alpn_protocol() != Some(HTTP_2) {
            return Err(io::Error::other("the server does not speak HTTP/2"));
        }
        Ok(TokioIo::new(stream))
    }
}

impl Service<Uri> for Encrypted {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        // IPv6 addresses are in brackets.
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        Box::pin(self.clone().open(host, uri.port_u16().unwrap_or(443)))
    }
}
