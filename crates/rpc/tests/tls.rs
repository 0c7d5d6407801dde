//! Certificates: servers and clients that prove who they are.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod support;

use std::path::{Path, PathBuf};

use evenkeel_proto::v1::RewardGetStatusRequest;
use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_rpc::client::{ClientSettings, ClientTlsSettings, Connector, ServerAddress};
use evenkeel_rpc::server::{Server, ServerSettings, ServerTlsSettings};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use support::{Setup, Worker, bounded};

/// An authority, and what it signed.
struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        std::fs::write(folder.path().join("ca.pem"), params.self_signed(&authority_key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(params, authority_key);
        for name in ["localhost", "client", "elsewhere"] {
            let key = KeyPair::generate().unwrap();
            let certificate = CertificateParams::new(vec![name.into()]).unwrap().signed_by(&key, &issuer).unwrap();
            std::fs::write(folder.path().join(format!("{name}.pem")), certificate.pem()).unwrap();
            std::fs::write(folder.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn worker(&self, client_ca_file: Option<PathBuf>) -> Worker {
        let (certificate_file, key_file) = (self.path("localhost.pem"), self.path("localhost.key"));
        let tls = Some(ServerTlsSettings { certificate_file, key_file, client_ca_file });
        Setup { server: ServerSettings { tls, ..ServerSettings::default() }, ..Setup::default() }.start("worker").await
    }

    fn client(&self) -> ClientTlsSettings {
        ClientTlsSettings {
            ca_file: self.path("ca.pem"),
            server_name: Some("localhost".into()),
            ..ClientTlsSettings::default()
        }
    }
}

async fn status(worker: &Worker, tls: Option<ClientTlsSettings>) -> Result<(), String> {
    assert!(worker.server.endpoint().starts_with("https://"));
    let connector = Connector::new("client", ClientSettings { tls, ..ClientSettings::default() })
        .map_err(|error| error.to_string())?;
    let channel =
        connector.connect(&ServerAddress::new(worker.server.endpoint())).await.map_err(|error| error.to_string())?;
    let response = RewardClient::new(channel).get_status(RewardGetStatusRequest {}).await;
    response.map(drop).map_err(|status| status.to_string())
}

#[tokio::test]
async fn a_client_that_knows_the_authority_is_served() {
    bounded(async {
        let folder = Folder::new();
        let worker = folder.worker(None).await;
        assert_eq!(status(&worker, Some(folder.client())).await, Ok(()));
    })
    .await;
}

#[tokio::test]
async fn a_server_of_another_name_is_refused() {
    bounded(async {
        let folder = Folder::new();
        let worker = folder.worker(None).await;
        let tls = ClientTlsSettings { server_name: Some("elsewhere".into()), ..folder.client() };
        let error = status(&worker, Some(tls)).await.unwrap_err();
        assert!(error.contains("certificate"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn an_https_endpoint_without_certificates_is_refused() {
    bounded(async {
        let folder = Folder::new();
        let worker = folder.worker(None).await;
        let error = status(&worker, None).await.unwrap_err();
        assert!(error.contains("the settings have no certificates"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_server_may_ask_for_the_clients_certificate() {
    bounded(async {
        let folder = Folder::new();
        let worker = folder.worker(Some(folder.path("ca.pem"))).await;
        assert!(status(&worker, Some(folder.client())).await.is_err());
        let (certificate_file, key_file) = (Some(folder.path("client.pem")), Some(folder.path("client.key")));
        assert_eq!(
            status(&worker, Some(ClientTlsSettings { certificate_file, key_file, ..folder.client() })).await,
            Ok(())
        );
    })
    .await;
}

#[tokio::test]
async fn files_that_are_not_there_are_named() {
    bounded(async {
        let tls = ServerTlsSettings { certificate_file: "/nonexistent/a.pem".into(), ..ServerTlsSettings::default() };
        let config = ServerSettings { tls: Some(tls), ..ServerSettings::default() };
        let error = Server::bind("worker", "server", config).await.err().unwrap().to_string();
        assert!(error.starts_with("`server.tls.certificate_file` names /nonexistent/a.pem"), "{error}");
        let tls =
            ClientTlsSettings { ca_file: Path::new("/nonexistent/ca.pem").into(), ..ClientTlsSettings::default() };
        let error =
            Connector::new("client", ClientSettings { tls: Some(tls), ..ClientSettings::default() }).err().unwrap();
        assert!(error.to_string().starts_with("`client.tls.ca_file` names /nonexistent/ca.pem"), "{error}");
    })
    .await;
}
