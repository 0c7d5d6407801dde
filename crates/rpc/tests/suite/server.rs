//! The life of a server as operators and clients see it.

use std::time::Duration;

use crate::support::{Setup, bounded, channel, client, item, until};
use evenkeel_config::ByteSize;
use evenkeel_proto::v1::{RewardGetStatusRequest, VerifyOneRequest};
use evenkeel_rpc::client::ClientSettings;
use evenkeel_rpc::server::{Server, ServerSettings, ShutdownOutcome};
use evenkeel_telemetry::TraceContext;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

async fn health(endpoint: &str, service: &str) -> Result<ServingStatus, Code> {
    let request = HealthCheckRequest { service: service.into() };
    let response = HealthClient::new(channel(endpoint, ClientSettings::default()).await).check(request).await;
    response.map(|response| response.into_inner().status()).map_err(|status| status.code())
}

#[tokio::test]
async fn a_taken_port_is_refused_by_address_and_setting() {
    bounded(async {
        let first = Server::bind("first", "reward.server", ServerSettings::default()).await.unwrap();
        let address = first.address().to_string();
        let error =
            Server::bind("second", "reward.server", ServerSettings::on(&address)).await.err().unwrap().to_string();
        let expected = format!("cannot listen on {address} (setting `reward.server.listen`): Address already in use");
        assert!(error.starts_with(&expected), "{error}");
        let error = first.with_metrics("telemetry.metrics_listen", &address).await.err().unwrap().to_string();
        assert!(error.contains("(setting `telemetry.metrics_listen`)"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn health_is_reported_for_each_service_and_the_whole() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let endpoint = worker.server.endpoint();
        assert_eq!(health(endpoint, "").await, Ok(ServingStatus::Serving));
        assert_eq!(health(endpoint, "evenkeel.v1.Reward").await, Ok(ServingStatus::Serving));
        assert_eq!(health(endpoint, "evenkeel.v1.Learner").await, Err(Code::NotFound));
    })
    .await;
}

#[tokio::test]
async fn a_server_that_ends_says_so_before_it_refuses_work() {
    bounded(async {
        let server = ServerSettings { settle: Duration::from_secs(2), ..ServerSettings::default() };
        let worker = Setup { server, ..Setup::default() }.start("worker").await;
        let endpoint = worker.server.endpoint().to_owned();
        let mut client = worker.client().await;
        let ended = tokio::spawn(worker.server.stop());
        while health(&endpoint, "").await != Ok(ServingStatus::NotServing) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let response = client.verify_one(VerifyOneRequest { item: Some(item("a", "")) }).await.unwrap();
        assert!(response.into_inner().verdict.unwrap().is_valid(), "work is still taken while it settles");
        assert_eq!(ended.await.unwrap().unwrap(), ShutdownOutcome::Drained);
    })
    .await;
}

#[tokio::test]
async fn a_drain_waits_for_work_in_progress() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let mut client = worker.client().await;
        let call =
            tokio::spawn(
                async move { client.verify_one(VerifyOneRequest { item: Some(item("a", "sleep 300")) }).await },
            );
        until(|| worker.reward.seen.begun.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
        assert_eq!(worker.server.stop().await.unwrap(), ShutdownOutcome::Drained);
        assert!(call.await.unwrap().unwrap().into_inner().verdict.unwrap().is_valid());
    })
    .await;
}

#[tokio::test]
async fn a_drain_ends_at_its_deadline() {
    bounded(async {
        let server = ServerSettings { drain: Duration::from_millis(200), ..ServerSettings::default() };
        let worker = Setup { server, ..Setup::default() }.start("worker").await;
        let mut client = worker.client().await;
        let call =
            tokio::spawn(async move { client.verify_one(VerifyOneRequest { item: Some(item("a", "hang")) }).await });
        until(|| worker.reward.seen.begun.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
        assert_eq!(worker.server.stop().await.unwrap(), ShutdownOutcome::Aborted);
        // Either the handler still said that it was stopped, or its connection was cut under it.
        match call.await.unwrap() {
            Ok(response) => assert!(!response.into_inner().verdict.unwrap().is_valid()),
            Err(status) => {
                assert!(matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled), "{status}")
            }
        }
    })
    .await;
}

#[tokio::test]
async fn who_watches_health_does_not_hold_up_a_drain() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let mut watcher = HealthClient::new(channel(worker.server.endpoint(), ClientSettings::default()).await);
        let mut changes = watcher.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
        assert_eq!(changes.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
        let stopping = tokio::spawn(worker.server.stop());
        assert_eq!(changes.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
        assert_eq!(changes.message().await.unwrap_err().code(), Code::Unavailable);
        assert_eq!(stopping.await.unwrap().unwrap(), ShutdownOutcome::Drained);
    })
    .await;
}

#[tokio::test]
async fn a_killed_server_leaves_its_port_free() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let address = worker.server.address().to_string();
        let _client = worker.client().await;
        assert_eq!(worker.server.kill().await.unwrap(), ShutdownOutcome::Aborted);
        Server::bind("next", "server", ServerSettings::on(address)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn reflection_lists_what_is_served_in_both_versions() {
    use tonic_reflection::pb::{v1, v1alpha};

    macro_rules! services {
        ($version:ident, $channel:expr) => {{
            let request = $version::ServerReflectionRequest {
                host: String::new(),
                message_request: Some($version::server_reflection_request::MessageRequest::ListServices(String::new())),
            };
            let mut client = $version::server_reflection_client::ServerReflectionClient::new($channel);
            let mut responses =
                client.server_reflection_info(tokio_stream::iter([request])).await.unwrap().into_inner();
            match responses.message().await.unwrap().unwrap().message_response.unwrap() {
                $version::server_reflection_response::MessageResponse::ListServicesResponse(list) => {
                    list.service.into_iter().map(|service| service.name).collect::<Vec<_>>()
                }
                other => panic!("not a list: {other:?}"),
            }
        }};
    }

    bounded(async {
        let worker = Setup::default().start("worker").await;
        let open = || channel(worker.server.endpoint(), ClientSettings::default());
        for services in [services!(v1, open().await), services!(v1alpha, open().await)] {
            for name in ["evenkeel.v1.Reward", "grpc.health.v1.Health"] {
                assert!(services.iter().any(|service| service == name), "{services:?}");
            }
            assert!(
                !services.iter().any(|service| service == "evenkeel.v1.Learner"),
                "which is not served: {services:?}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn reflection_can_be_turned_off() {
    bounded(async {
        let server = ServerSettings { reflection: false, ..ServerSettings::default() };
        let worker = Setup { server, ..Setup::default() }.start("worker").await;
        let channel = channel(worker.server.endpoint(), ClientSettings::default()).await;
        let mut client = tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient::new(channel);
        let status = client.server_reflection_info(tokio_stream::iter([])).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
    })
    .await;
}

#[tokio::test]
async fn the_message_limit_is_the_settings() {
    bounded(async {
        let server = ServerSettings { max_message: ByteSize::b(10_000), ..ServerSettings::default() };
        let worker = Setup { server, ..Setup::default() }.start("worker").await;
        let mut client = worker.client().await;
        let small = VerifyOneRequest { item: Some(item("a", &"x".repeat(9_000))) };
        assert!(client.verify_one(small).await.is_ok());
        let large = VerifyOneRequest { item: Some(item("a", &"x".repeat(11_000))) };
        let status = client.verify_one(large).await.unwrap_err();
        assert!(matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted), "{status}");
        assert!(status.message().contains("10000"), "{status}");
    })
    .await;
}

#[tokio::test]
async fn without_the_token_only_health_answers() {
    bounded(async {
        let folder = tempfile::tempdir().unwrap();
        let token_file = folder.path().join("token");
        std::fs::write(&token_file, "s3cret-of-a-test\n").unwrap();
        let server = ServerSettings { token_file: Some(token_file.clone()), ..ServerSettings::default() };
        let worker = Setup { server, ..Setup::default() }.start("worker").await;
        let status = worker.client().await.get_status(RewardGetStatusRequest {}).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated);
        assert_eq!(health(worker.server.endpoint(), "").await, Ok(ServingStatus::Serving));
        let settings = ClientSettings { token_file: Some(token_file), ..ClientSettings::default() };
        let channel = channel(worker.server.endpoint(), settings).await;
        let mut client = evenkeel_proto::v1::reward_client::RewardClient::new(channel);
        assert!(client.get_status(RewardGetStatusRequest {}).await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn plaintext_for_other_machines_is_refused_unless_it_is_meant() {
    bounded(async {
        let error = Server::bind("worker", "reward.server", ServerSettings::on("0.0.0.0:0")).await.err().unwrap();
        let error = error.to_string();
        assert!(error.starts_with("reward.server.listen is \"0.0.0.0:0\" in plaintext, allowed: "), "{error}");
        assert!(error.contains("insecure = true"), "{error}");
        let meant = ServerSettings { insecure: true, ..ServerSettings::on("0.0.0.0:0") };
        assert!(Server::bind("worker", "reward.server", meant).await.is_ok());
        let local = Server::bind("worker", "reward.server", ServerSettings::default()).await.unwrap();
        let error = local.with_metrics("--metrics", "0.0.0.0:0").await.err().unwrap().to_string();
        assert!(error.starts_with("--metrics is \"0.0.0.0:0\" in plaintext"), "{error}");
        assert!(error.contains("server.insecure = true"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_token_file_that_is_none_is_refused_by_setting_and_path() {
    bounded(async {
        let server = ServerSettings { token_file: Some("/nonexistent/token".into()), ..ServerSettings::default() };
        let error = Server::bind("worker", "reward.server", server).await.err().unwrap().to_string();
        assert!(
            error.starts_with("`reward.server.token_file` names /nonexistent/token, which cannot be used: "),
            "{error}"
        );
    })
    .await;
}

#[tokio::test]
async fn the_trace_of_the_caller_reaches_the_handler() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let mut client = worker.client().await;
        let context = TraceContext::for_id("run", "train/0/0");
        let call = client.verify_one(VerifyOneRequest { item: Some(item("a", "")) });
        context.scope(call).await.unwrap();
        assert_eq!(worker.reward.seen.traces.lock().unwrap()["a"], context.trace_id());
    })
    .await;
}

#[tokio::test]
async fn metrics_count_calls_by_method_and_code() {
    bounded(async {
        let (server, _reward) = Setup::default().bind("worker").await;
        // A port that was free a moment ago.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let running = server.with_metrics("telemetry.metrics_listen", &free).await.unwrap().spawn();
        client(running.endpoint()).await.get_status(RewardGetStatusRequest {}).await.unwrap();
        let expected = "evenkeel_grpc_calls_total{method=\"evenkeel.v1.Reward/GetStatus\",code=\"Ok\"} ";
        loop {
            let mut connection = tokio::net::TcpStream::connect(&free).await.unwrap();
            connection
                .write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                .await
                .unwrap();
            let mut page = String::new();
            connection.read_to_string(&mut page).await.unwrap();
            assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
            // The call is recorded when its last byte is sent, which may be after the client has it.
            if page.contains(expected) && page.contains("evenkeel_grpc_call_seconds_bucket{") {
                break;
            }
        }
        running.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn methods_that_are_not_there_have_no_metrics_of_their_own() {
    bounded(async {
        let metrics = evenkeel_telemetry::install_metrics().unwrap();
        let worker = Setup::default().start("worker").await;
        let endpoint = tonic::transport::Endpoint::from_shared(worker.server.endpoint().to_owned()).unwrap();
        let mut channel = endpoint.connect().await.unwrap();
        for name in ["evenkeel.v1.Reward/Forged", "evenkeel.v1.Forged/Verify", "grpc.health.v1.Forged/Check", "Forged"]
        {
            let request = http::Request::post(format!("/{name}")).header("content-type", "application/grpc");
            std::future::poll_fn(|context| tower::Service::poll_ready(&mut channel, context)).await.unwrap();
            tower::Service::call(&mut channel, request.body(tonic::body::Body::empty()).unwrap()).await.unwrap();
        }
        let unknown = "evenkeel_grpc_calls_total{method=\"unknown\",";
        until(|| metrics.render().contains(unknown)).await;
        assert!(!metrics.render().contains("Forged"), "{}", metrics.render());
    })
    .await;
}
