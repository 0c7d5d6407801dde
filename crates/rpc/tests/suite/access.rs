//! Roles: what a caller may do, by the token or the certificate that it authenticates with.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::support::certificates::{Folder, at, connector};
use crate::support::{Setup, Worker, bounded, item};
use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_proto::v1::{RewardGetStatusRequest, VerifyOneRequest};
use evenkeel_rpc::client::Connector;
use evenkeel_rpc::error::reason_of;
use evenkeel_rpc::server::{AuthSettings, Role, ServerSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

const NAMES: [&str; 5] = ["localhost", "orchestrator", "dashboard", "reward", "stranger"];

/// Tokens of a reader and an admin, in files.
fn tokens(folder: &Folder) -> BTreeMap<Role, PathBuf> {
    [Role::Service, Role::Reader, Role::Admin]
        .map(|role| {
            let name = format!("{role}.token");
            folder.write(&name, &format!("{role}-token-of-a-test\n"));
            (role, folder.path(&name))
        })
        .into()
}

fn certificates() -> BTreeMap<String, Role> {
    [("orchestrator", Role::Orchestrator), ("dashboard", Role::Reader), ("reward", Role::Service)]
        .map(|(name, role)| (name.to_owned(), role))
        .into()
}

async fn worker(server: ServerSettings) -> Worker {
    Setup { server, ..Setup::default() }.start("worker").await
}

/// Watches: the least role is a reader.
async fn watch(worker: &Worker, connector: &Connector) -> Result<(), Status> {
    let channel = connector.connect_lazy(&at(worker.server.endpoint())).unwrap();
    RewardClient::new(channel).get_status(RewardGetStatusRequest {}).await.map(drop)
}

/// Acts: the least role is an admin.
async fn act(worker: &Worker, connector: &Connector) -> Result<(), Status> {
    let channel = connector.connect_lazy(&at(worker.server.endpoint())).unwrap();
    RewardClient::new(channel).verify_one(VerifyOneRequest { item: Some(item("a", "")) }).await.map(drop)
}

/// How the two calls of this client end.
async fn ends(worker: &Worker, connector: &Connector) -> [Code; 2] {
    let code = |result: Result<(), Status>| result.map_or_else(|status| status.code(), |()| Code::Ok);
    [code(watch(worker, connector).await), code(act(worker, connector).await)]
}

#[tokio::test]
async fn a_token_may_do_what_its_role_may() {
    bounded(async {
        let folder = Folder::new(&NAMES);
        let auth = AuthSettings { tokens: tokens(&folder), ..AuthSettings::default() };
        let worker = worker(ServerSettings { auth, ..ServerSettings::default() }).await;
        let with = |name: &str| connector(None, Some(&folder.path(&format!("{name}.token"))));
        assert_eq!(ends(&worker, &with("admin")).await, [Code::Ok, Code::Ok]);
        assert_eq!(ends(&worker, &with("reader")).await, [Code::Ok, Code::PermissionDenied]);
        assert_eq!(ends(&worker, &with("service")).await, [Code::PermissionDenied; 2]);
        folder.write("wrong.token", "a-token-of-another-server\n");
        assert_eq!(ends(&worker, &with("wrong")).await, [Code::Unauthenticated; 2]);
        assert_eq!(ends(&worker, &connector(None, None)).await, [Code::Unauthenticated; 2]);
    })
    .await;
}

#[tokio::test]
async fn a_refusal_names_the_method_and_the_role_and_never_the_token() {
    bounded(async {
        let folder = Folder::new(&NAMES);
        let auth = AuthSettings { tokens: tokens(&folder), ..AuthSettings::default() };
        let worker = worker(ServerSettings { auth, ..ServerSettings::default() }).await;
        let reader = connector(None, Some(&folder.path("reader.token")));
        let status = act(&worker, &reader).await.unwrap_err();
        let expected = "the role `reader` may not call evenkeel.v1.Reward/VerifyOne, which requires `admin`";
        assert_eq!(status.message(), expected);
        assert_eq!(reason_of(&status).as_deref(), Some("INSUFFICIENT_ROLE"));
        folder.write("wrong.token", "a-token-of-another-server\n");
        let status = act(&worker, &connector(None, Some(&folder.path("wrong.token")))).await.unwrap_err();
        assert!(!format!("{status:?}").contains("another-server"), "{status:?}");
    })
    .await;
}

#[tokio::test]
async fn a_certificate_may_do_what_the_role_of_its_name_may() {
    bounded(async {
        let folder = Folder::new(&NAMES);
        let tls = Some(folder.server(Some(folder.path("ca.pem"))));
        let auth = AuthSettings { certificates: certificates(), ..AuthSettings::default() };
        let worker = worker(ServerSettings { tls, auth, ..ServerSettings::default() }).await;
        let with = |name: &str| connector(Some(folder.client_as(name)), None);
        assert_eq!(ends(&worker, &with("orchestrator")).await, [Code::Ok, Code::Ok]);
        assert_eq!(ends(&worker, &with("dashboard")).await, [Code::Ok, Code::PermissionDenied]);
        assert_eq!(ends(&worker, &with("reward")).await, [Code::PermissionDenied; 2]);
        assert_eq!(ends(&worker, &with("stranger")).await, [Code::Unauthenticated; 2]);
        // Without a certificate there is not even a connection.
        assert!(watch(&worker, &connector(Some(folder.client()), None)).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn where_both_have_roles_either_is_enough() {
    bounded(async {
        let folder = Folder::new(&NAMES);
        let tls = Some(folder.server(Some(folder.path("ca.pem"))));
        let auth = AuthSettings { certificates: certificates(), tokens: tokens(&folder) };
        let worker = worker(ServerSettings { tls, auth, ..ServerSettings::default() }).await;
        assert_eq!(ends(&worker, &connector(Some(folder.client_as("orchestrator")), None)).await, [Code::Ok; 2]);
        let token = folder.path("admin.token");
        assert_eq!(ends(&worker, &connector(Some(folder.client()), Some(&token))).await, [Code::Ok; 2]);
        assert_eq!(ends(&worker, &connector(Some(folder.client_as("reward")), Some(&token))).await, [Code::Ok; 2]);
        assert_eq!(ends(&worker, &connector(Some(folder.client()), None)).await, [Code::Unauthenticated; 2]);
    })
    .await;
}

#[tokio::test]
async fn health_is_open_to_everybody() {
    bounded(async {
        let folder = Folder::new(&NAMES);
        let auth = AuthSettings { tokens: tokens(&folder), ..AuthSettings::default() };
        let worker = worker(ServerSettings { auth, ..ServerSettings::default() }).await;
        let channel = connector(None, None).connect(&at(worker.server.endpoint())).await.unwrap();
        let request = HealthCheckRequest { service: "evenkeel.v1.Reward".to_owned() };
        assert!(HealthClient::new(channel).check(request).await.is_ok());
    })
    .await;
}

/// The status of `/metrics` of a server with these tokens, for each of the tokens that are sent.
async fn scrapes<const N: usize>(auth: AuthSettings, token_file: Option<PathBuf>, sent: [&str; N]) -> [String; N] {
    let server = ServerSettings { auth, token_file, ..ServerSettings::default() };
    let (server, _reward) = Setup { server, ..Setup::default() }.bind("worker").await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let _running = server.with_metrics("--metrics", &free).await.unwrap().spawn();
    let mut answers = sent.map(str::to_owned);
    for token in &mut answers {
        let mut connection = tokio::net::TcpStream::connect(&free).await.unwrap();
        let head = format!("GET /metrics HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut page = String::new();
        connection.read_to_string(&mut page).await.unwrap();
        page[9..12].clone_into(token);
    }
    answers
}

#[tokio::test]
async fn metrics_take_the_token_of_a_reader_where_tokens_have_roles() {
    bounded(async {
        let folder = Folder::new(&NAMES);
        let sent = ["reader-token-of-a-test", "admin-token-of-a-test", "service-token-of-a-test", ""];
        let all = AuthSettings { tokens: tokens(&folder), ..AuthSettings::default() };
        assert_eq!(scrapes(all.clone(), None, sent).await, ["200", "200", "401", "401"]);
        // No token of this server has the role: nobody passes, least of all without a token.
        let mut service = all;
        service.tokens.retain(|role, _| *role == Role::Service);
        assert_eq!(scrapes(service.clone(), None, sent).await, ["401"; 4]);
        folder.write("single.token", "reader-token-of-a-test\n");
        let single = Some(folder.path("single.token"));
        assert_eq!(scrapes(service, single.clone(), sent).await, ["200", "401", "401", "401"]);
        assert_eq!(scrapes(AuthSettings::default(), single, sent).await, ["200"; 4], "as documented");
    })
    .await;
}

/// The status of a worker as a process without the secret asks for it: without this crate's client.
async fn status_for_a_stranger(worker: &Worker, token: &str) -> Result<(), Status> {
    let endpoint = Endpoint::from_shared(worker.server.endpoint().to_owned()).unwrap();
    let mut request = Request::new(RewardGetStatusRequest {});
    if !token.is_empty() {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    RewardClient::new(endpoint.connect().await.unwrap()).get_status(request).await.map(drop)
}

#[tokio::test]
async fn a_private_server_answers_the_clients_of_its_process_and_nobody_else() {
    bounded(async {
        let worker = worker(ServerSettings::private()).await;
        assert_eq!(ends(&worker, &connector(None, None)).await, [Code::Ok; 2]);
        let folder = Folder::new(&NAMES);
        folder.write("other.token", "a-token-of-another-server\n");
        let with_token = connector(None, Some(&folder.path("other.token")));
        assert_eq!(ends(&worker, &with_token).await, [Code::Ok; 2], "the token of the settings is for others");
        for token in ["", "a-token-of-another-server"] {
            let refused = status_for_a_stranger(&worker, token).await.unwrap_err();
            assert_eq!(refused.code(), Code::Unauthenticated, "{token:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_secret_of_private_servers_is_sent_to_no_other_one() {
    bounded(async {
        let _private = worker(ServerSettings::private()).await;
        let folder = Folder::new(&NAMES);
        let auth = AuthSettings { tokens: tokens(&folder), ..AuthSettings::default() };
        let other = worker(ServerSettings { auth, ..ServerSettings::default() }).await;
        let refused = watch(&other, &connector(None, None)).await.unwrap_err();
        assert!(refused.message().contains("a bearer token is required"), "no token was sent: {refused}");
    })
    .await;
}
