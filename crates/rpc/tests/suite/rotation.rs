//! Certificates and tokens that are replaced while calls are made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::certificates::{Authority, Folder, at, connector};
use crate::support::{Setup, bounded};
use evenkeel_proto::v1::RewardGetStatusRequest;
use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_rpc::client::Connector;
use evenkeel_rpc::server::ServerSettings;

/// Longer than the interval at which files are looked at.
const SEEN: Duration = Duration::from_millis(1300);

/// Calls over connections of their own and over one that lasts, until `stop`. Every call must be answered.
async fn call_all_the_time(connector: Connector, endpoint: String, stop: Arc<AtomicBool>, calls: Arc<AtomicUsize>) {
    let lasting = connector.connect_lazy(&at(&endpoint)).unwrap();
    while !stop.load(Ordering::Relaxed) {
        let fresh = connector.connect(&at(&endpoint)).await.expect("a connection");
        for channel in [fresh, lasting.clone()] {
            RewardClient::new(channel).get_status(RewardGetStatusRequest {}).await.expect("an answer");
            calls.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn answers(connector: &Connector, endpoint: &str) -> bool {
    let Ok(channel) = connector.connect(&at(endpoint)).await else { return false };
    RewardClient::new(channel).get_status(RewardGetStatusRequest {}).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_authority_certificates_and_token_are_replaced() {
    bounded(async {
        let folder = Folder::new(&["localhost", "client"]);
        folder.write("token", "the-old-token-of-a-test\n");
        let tls = Some(folder.server(Some(folder.path("ca.pem"))));
        let token_file = Some(folder.path("token"));
        let server = ServerSettings { tls, token_file, ..ServerSettings::default() };
        let worker = Setup { server, ..Setup::default() }.start("worker").await;
        let endpoint = worker.server.endpoint().to_owned();
        // The same files for both sides, as where a folder of secrets is mounted into all containers.
        let client = connector(Some(folder.client_as("client")), Some(&folder.path("token")));
        let stop = Arc::new(AtomicBool::new(false));
        let calls = Arc::new(AtomicUsize::new(0));
        let load: Vec<_> = (0..4)
            .map(|_| {
                let stop = Arc::clone(&stop);
                let calls = Arc::clone(&calls);
                tokio::spawn(call_all_the_time(client.clone(), endpoint.clone(), stop, calls))
            })
            .collect();
        tokio::time::sleep(SEEN).await;

        // Half-written files are not used.
        let old = folder.authority.pem.clone();
        let new = Authority::new();
        let certificate = std::fs::read_to_string(folder.path("localhost.pem")).unwrap();
        std::fs::write(folder.path("localhost.pem"), &certificate[..certificate.len() / 2]).unwrap();
        std::fs::write(folder.path("token"), "the-old").unwrap();
        std::fs::write(folder.path("ca.pem"), &old[..old.len() / 3]).unwrap();
        tokio::time::sleep(SEEN).await;

        // Both authorities are trusted, then certificates come from the new one, then only that is trusted; tokens
        // likewise.
        folder.write("localhost.pem", &certificate);
        folder.write("ca.pem", &format!("{old}{}", new.pem));
        folder.write("token", "the-old-token-of-a-test\nthe-new-token-of-a-test\n");
        tokio::time::sleep(2 * SEEN).await;
        folder.store("localhost", &new.issue("localhost"));
        folder.store("client", &new.issue("client"));
        folder.write("token", "the-new-token-of-a-test\nthe-old-token-of-a-test\n");
        tokio::time::sleep(2 * SEEN).await;
        folder.write("ca.pem", &new.pem);
        folder.write("token", "the-new-token-of-a-test\n");
        tokio::time::sleep(2 * SEEN).await;
        stop.store(true, Ordering::Relaxed);
        for task in load {
            task.await.unwrap();
        }
        assert!(calls.load(Ordering::Relaxed) > 100);

        // What was replaced is of no use any more.
        assert!(answers(&client, &endpoint).await);
        folder.write("old-token", "the-old-token-of-a-test\n");
        let old_token = connector(Some(folder.client_as("client")), Some(&folder.path("old-token")));
        assert!(!answers(&old_token, &endpoint).await);
        folder.store("former", &folder.authority.issue("former"));
        let former = connector(Some(folder.client_as("former")), Some(&folder.path("token")));
        assert!(!answers(&former, &endpoint).await);
        folder.write("old-ca.pem", &old);
        let mut tls = folder.client_as("client");
        tls.ca_file = folder.path("old-ca.pem");
        assert!(!answers(&connector(Some(tls), Some(&folder.path("token"))), &endpoint).await);
    })
    .await;
}
