//! TLS: whom the engine answers, and for how long it waits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_engine::{Engine, EngineSettings, EngineTlsSettings};
use evenkeel_rpc::client::{ClientSettings, ClientTlsSettings, Connector};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Served, TIMEOUT, model, serve_with, settings};

/// A certificate for `localhost` that is its own authority.
struct Certificate(TempDir);

impl Certificate {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(folder.path().join("certificate.pem"), cert.pem()).unwrap();
        std::fs::write(folder.path().join("key.pem"), signing_key.serialize_pem()).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn settings(&self) -> Option<EngineTlsSettings> {
        Some(EngineTlsSettings { certificate_file: self.path("certificate.pem"), key_file: self.path("key.pem") })
    }

    async fn serve(&self) -> Served {
        serve_with(|settings| EngineSettings { tls: self.settings(), ..settings }).await
    }
}

/// The first line of the answer to `GET /health`.
async fn health(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin) -> String {
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // Whoever is refused is disconnected, with an error or without.
    let _ = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut answer)).await.expect("an answer in time");
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

async fn connect(served: &Served) -> TcpStream {
    TcpStream::connect(served.engine.address()).await.unwrap()
}

/// A client that trusts an authority.
fn trusting(ca_file: &Path) -> Connector {
    let tls = Some(ClientTlsSettings { ca_file: ca_file.to_owned(), ..ClientTlsSettings::default() });
    Connector::new("client", ClientSettings { tls, ..ClientSettings::default() }).unwrap()
}

#[tokio::test]
async fn with_a_certificate_the_engine_speaks_tls_and_nothing_else() {
    let own = Certificate::new();
    let other = Certificate::new();
    let served = own.serve().await;
    assert!(served.engine.endpoint().starts_with("https://127.0.0.1:"));
    let stream = trusting(&own.path("certificate.pem")).encrypt_http1("localhost", connect(&served).await).await;
    assert_eq!(health(stream.unwrap()).await, "HTTP/1.1 200 OK");
    let stream = trusting(&other.path("certificate.pem")).encrypt_http1("localhost", connect(&served).await).await;
    assert!(stream.is_err(), "a client must not believe another certificate");
    assert!(!health(connect(&served).await).await.contains("200"), "plaintext is answered");
    served.engine.stop().await;
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_handshake_is_disconnected() {
    let certificate = Certificate::new();
    let short = |settings| EngineSettings {
        tls: certificate.settings(),
        header_deadline: Duration::from_millis(200),
        ..settings
    };
    let served = serve_with(short).await;
    let mut silent = connect(&served).await;
    let read = tokio::time::timeout(TIMEOUT, silent.read(&mut [0; 16])).await.expect("the end in time");
    assert_eq!(read.unwrap_or(0), 0);
    served.engine.stop().await;
}

#[tokio::test]
async fn a_handshake_in_progress_does_not_delay_the_end() {
    let certificate = Certificate::new();
    let served = certificate.serve().await;
    let mut silent = connect(&served).await;
    silent.write_all(&[22, 3, 1]).await.unwrap();
    assert_eq!(served.engine.stop().await, evenkeel_engine::Shutdown::Drained);
}

#[tokio::test]
async fn a_certificate_that_is_cut_off_is_refused_by_setting_and_file() {
    let certificate = Certificate::new();
    let folder = model(1);
    let path = certificate.path("certificate.pem");
    let text = std::fs::read(&path).unwrap();
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    let settings = EngineSettings { tls: certificate.settings(), ..settings(folder.path()) };
    let error = Engine::start(settings).await.err().unwrap().to_string();
    assert!(error.starts_with(&format!("`tls.certificate_file` names {}", path.display())), "{error}");
}
