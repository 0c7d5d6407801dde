//! Certificates: servers and clients that prove who they are.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::certificates::Folder;
use crate::support::{Setup, Worker, bounded};
use evenkeel_proto::v1::RewardGetStatusRequest;
use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_rpc::client::{ClientSettings, ClientTlsSettings, Connector, ServerAddress};
use evenkeel_rpc::server::{Server, ServerSettings, ServerTlsSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn folder() -> Folder {
    Folder::new(&["localhost", "client", "elsewhere"])
}

async fn worker(folder: &Folder, client_ca_file: Option<PathBuf>) -> Worker {
    let tls = Some(folder.server(client_ca_file));
    Setup { server: ServerSettings { tls, ..ServerSettings::default() }, ..Setup::default() }.start("worker").await
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
        let folder = folder();
        let worker = worker(&folder, None).await;
        assert_eq!(status(&worker, Some(folder.client())).await, Ok(()));
    })
    .await;
}

#[tokio::test]
async fn a_server_of_another_name_is_refused() {
    bounded(async {
        let folder = folder();
        let worker = worker(&folder, None).await;
        let tls = ClientTlsSettings { server_name: Some("elsewhere".into()), ..folder.client() };
        let error = status(&worker, Some(tls)).await.unwrap_err();
        assert!(error.contains("certificate"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn an_https_endpoint_without_certificates_is_refused() {
    bounded(async {
        let folder = folder();
        let worker = worker(&folder, None).await;
        let error = status(&worker, None).await.unwrap_err();
        assert!(error.contains("the settings have no certificates"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_server_may_ask_for_the_clients_certificate() {
    bounded(async {
        let folder = folder();
        let worker = worker(&folder, Some(folder.path("ca.pem"))).await;
        assert!(status(&worker, Some(folder.client())).await.is_err());
        assert_eq!(status(&worker, Some(folder.client_as("client"))).await, Ok(()));
    })
    .await;
}

#[tokio::test]
async fn files_that_are_not_there_are_named() {
    bounded(async {
        let certificate_file = "/nonexistent/a.pem".into();
        let key_file = "/nonexistent/a.key".into();
        let tls = ServerTlsSettings { certificate_file, key_file, client_ca_file: None };
        let settings = ServerSettings { tls: Some(tls), ..ServerSettings::default() };
        let error = Server::bind("worker", "server", settings).await.err().unwrap().to_string();
        assert!(error.starts_with("`server.tls.certificate_file` names /nonexistent/a.pem"), "{error}");
        let tls =
            ClientTlsSettings { ca_file: Path::new("/nonexistent/ca.pem").into(), ..ClientTlsSettings::default() };
        let error =
            Connector::new("client", ClientSettings { tls: Some(tls), ..ClientSettings::default() }).err().unwrap();
        assert!(error.to_string().starts_with("`client.tls.ca_file` names /nonexistent/ca.pem"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_certificate_whose_time_is_over_is_refused() {
    bounded(async {
        let folder = folder();
        let worker = worker(&folder, Some(folder.path("ca.pem"))).await;
        folder.store("client", &folder.authority.issue_expired("client"));
        assert!(status(&worker, Some(folder.client_as("client"))).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_half_written_certificate_is_refused_by_setting_and_file() {
    bounded(async {
        let folder = folder();
        let refused = async |name: &str, text: &str| {
            let whole = std::fs::read_to_string(folder.path(name)).unwrap();
            std::fs::write(folder.path(name), text).unwrap();
            let tls = Some(folder.server(Some(folder.path("ca.pem"))));
            let settings = ServerSettings { tls, ..ServerSettings::default() };
            let error = Server::bind("worker", "server", settings).await.err().unwrap().to_string();
            std::fs::write(folder.path(name), whole).unwrap();
            error
        };
        let certificate = std::fs::read_to_string(folder.path("localhost.pem")).unwrap();
        let key = std::fs::read_to_string(folder.path("localhost.key")).unwrap();
        let other = std::fs::read_to_string(folder.path("elsewhere.key")).unwrap();
        let lines: Vec<&str> = certificate.lines().collect();
        let shorter = [&lines[..2], &lines[3..]].concat().join("\n");
        let cases = [
            ("localhost.pem", "certificate_file", ""),
            ("localhost.pem", "certificate_file", &certificate[..certificate.len() / 2]),
            ("localhost.pem", "certificate_file", &shorter),
            ("localhost.key", "key_file", &key[..key.len() / 2]),
            ("localhost.key", "key_file", &other),
            ("ca.pem", "client_ca_file", &certificate[..100]),
        ];
        for (name, setting, text) in cases {
            let error = refused(name, text).await;
            let start = format!("`server.tls.{setting}` names {}", folder.path(name).display());
            assert!(error.starts_with(&start), "{error}");
            assert!(!error.contains(key.lines().nth(1).unwrap()), "nothing of a key: {error}");
        }
    })
    .await;
}

#[tokio::test]
async fn handshakes_that_never_end_are_given_up_and_keep_nobody_out() {
    bounded(async {
        let folder = folder();
        let server = ServerSettings {
            tls: Some(folder.server(None)),
            max_connections: 8,
            handshake_timeout: Duration::from_secs(2),
            ..ServerSettings::default()
        };
        let worker = Setup { server, ..Setup::default() }.start("worker").await;
        let mut silent = Vec::new();
        for index in 0..100 {
            let mut stream = TcpStream::connect(worker.server.address()).await.unwrap();
            // Some begin: a record of TLS whose rest never comes.
            if index % 2 == 0 {
                stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
            }
            silent.push(stream);
        }
        assert_eq!(status(&worker, Some(folder.client())).await, Ok(()));
        for mut stream in silent {
            let mut rest = Vec::new();
            // A reset is an end, too.
            let _ = stream.read_to_end(&mut rest).await;
        }
        assert_eq!(status(&worker, Some(folder.client())).await, Ok(()));
    })
    .await;
}

#[tokio::test]
async fn who_speaks_plaintext_to_a_port_with_tls_gets_nothing() {
    bounded(async {
        let folder = folder();
        let worker = worker(&folder, None).await;
        let plain = worker.server.endpoint().replacen("https", "http", 1);
        let connector = Connector::new("client", ClientSettings::default()).unwrap();
        let channel = connector.connect_lazy(&ServerAddress::new(plain)).unwrap();
        assert!(RewardClient::new(channel).get_status(RewardGetStatusRequest {}).await.is_err());
        assert_eq!(status(&worker, Some(folder.client())).await, Ok(()));
    })
    .await;
}
