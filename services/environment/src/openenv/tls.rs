//! Connections to servers, and TLS of those at `wss://`. Their certificates must be signed by an authority that this machine trusts;
//! `SSL_CERT_FILE` names a file with others.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, Error};

use super::address::Address;

/// A connection in plaintext or with TLS.
pub(super) type Connection = Box<dyn Bytes>;

pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Bytes for S {}

/// Connects to a server, with TLS if its address says so.
///
/// # Errors
/// In words: nobody listens there, or somebody else.
pub(super) async fn connect(address: &Address) -> Result<Connection, String> {
    let stream = TcpStream::connect(&address.place).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(match &address.tls {
        None => Box::new(stream),
        Some(host) => Box::new(encrypted(stream, host, of_machine()?).await?),
    })
}

/// What the authorities of this machine vouch for. They are read once: thousands of episodes have a socket each.
///
/// # Errors
/// In words: there are none.
fn of_machine() -> Result<Arc<ClientConfig>, String> {
    static READ: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    READ.get_or_init(read).clone()
}

fn read() -> Result<Arc<ClientConfig>, String> {
    let unusable = |error: Error| format!("the certificate authorities of this machine cannot be used: {error}");
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(unusable)?;
    Ok(Arc::new(builder.with_platform_verifier().map_err(unusable)?.with_no_client_auth()))
}

/// Encrypts a connection to the host of that name or address, and verifies that it is that host.
///
/// # Errors
/// In words: a host without a valid certificate.
async fn encrypted<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    host: &str,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<S>, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("`{host}`: {error}"))?;
    let refused = |error: io::Error| format!("TLS: {error}");
    TlsConnector::from(config).connect(name, stream).await.map_err(refused)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::{RootCertStore, ServerConfig};

    use super::*;

    /// A server with a certificate for `localhost` of its own: the other end, and the certificate.
    fn server() -> (DuplexStream, CertificateDer<'static>) {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = config.with_single_cert(vec![cert.der().clone()], key).unwrap();
        let (ours, theirs) = duplex(1 << 16);
        tokio::spawn(async move {
            let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(theirs).await else { return };
            let mut byte = [0];
            stream.read_exact(&mut byte).await.unwrap();
            stream.write_all(&byte).await.unwrap();
            stream.flush().await.unwrap();
        });
        (ours, cert.der().clone())
    }

    fn trusting(certificate: CertificateDer<'static>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
    }

    #[tokio::test]
    async fn a_host_with_a_trusted_certificate_is_talked_to() {
        let (ours, certificate) = server();
        let mut stream = encrypted(ours, "localhost", trusting(certificate)).await.unwrap();
        stream.write_all(b"a").await.unwrap();
        stream.flush().await.unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte, *b"a");
    }

    #[tokio::test]
    async fn another_host_and_one_that_nobody_vouches_for_are_refused() {
        let (ours, certificate) = server();
        let error = encrypted(ours, "other", trusting(certificate)).await.err().unwrap();
        assert!(error.contains("certificate"), "{error}");
        let (ours, _) = server();
        let (_, another) = server();
        let error = encrypted(ours, "localhost", trusting(another)).await.err().unwrap();
        assert!(error.contains("certificate"), "{error}");
        let (ours, mut plaintext) = duplex(1 << 16);
        tokio::spawn(async move { plaintext.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").await });
        let (_, certificate) = server();
        assert!(encrypted(ours, "localhost", trusting(certificate)).await.is_err());
    }

    #[tokio::test]
    async fn a_connection_of_wss_begins_with_tls_and_says_nothing_in_plaintext() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::of(&format!("wss://{}", listener.local_addr().unwrap()));
        let client = tokio::spawn(async move { connect(&address).await.err() });
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut first = [0];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(first[0], 0x16, "a handshake of TLS");
        drop(stream);
        assert!(client.await.unwrap().is_some());
    }
}
