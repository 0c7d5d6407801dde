//! The servers that a run starts for itself, as another process on the machine meets them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use evenkeel_proto::v1::environment_client::EnvironmentClient;
use evenkeel_proto::v1::generation_client::GenerationClient;
use evenkeel_proto::v1::learner_client::LearnerClient;
use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_proto::v1::weights_client::WeightsClient;
use evenkeel_proto::v1::{
    EnvironmentGetStatusRequest, GenerationGetStatusRequest, LearnerGetStatusRequest, RewardGetStatusRequest,
    WeightsDescribeRequest,
};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use crate::episodes::recipe;
use crate::eval::{eval, sums};
use crate::support::{Process, summary, train_recipe, wait_for, written_model};
use crate::tinker::Server;

/// The ports on which a process listens, as the system lists them.
fn ports_of(process: &Process) -> BTreeSet<u16> {
    let id = process.0.id();
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{id}/fd")) else { return BTreeSet::new() };
    let links = descriptors.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let sockets: BTreeSet<String> =
        links.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect();
    let table = std::fs::read_to_string(format!("/proc/{id}/net/tcp")).unwrap_or_default();
    let port = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // The state of a socket that listens.
        let is_own = fields.get(3) == Some(&"0A") && sockets.contains(*fields.get(9)?);
        let (_, port) = fields.get(1)?.split_once(':')?;
        is_own.then(|| u16::from_str_radix(port, 16).ok())?
    };
    table.lines().filter_map(port).collect()
}

/// The status of the answer to a request without a key; nothing from a port that does not speak HTTP/1.
fn status_over_http(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    Some(answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.to_owned())
}

/// How a call of each service ends at a port, without a token; none where it does not speak gRPC.
#[tokio::main(flavor = "current_thread")]
async fn ends_over_grpc(port: u16) -> BTreeMap<&'static str, Code> {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
    let Ok(channel) = endpoint.connect().await else { return BTreeMap::new() };
    let channel = || Channel::clone(&channel);
    let code = |end: Result<(), tonic::Status>| end.map_or_else(|status| status.code(), |()| Code::Ok);
    let ends = [
        (
            "generation",
            code(GenerationClient::new(channel()).get_status(GenerationGetStatusRequest {}).await.map(drop)),
        ),
        ("reward", code(RewardClient::new(channel()).get_status(RewardGetStatusRequest {}).await.map(drop))),
        ("learner", code(LearnerClient::new(channel()).get_status(LearnerGetStatusRequest::default()).await.map(drop))),
        (
            "environment",
            code(EnvironmentClient::new(channel()).get_status(EnvironmentGetStatusRequest {}).await.map(drop)),
        ),
        ("weights", code(WeightsClient::new(channel()).describe(WeightsDescribeRequest::default()).await.map(drop))),
    ];
    ends.into()
}

/// What refused a stranger.
#[derive(PartialEq)]
enum Refused {
    Engine,
    Service,
}

/// Asks whatever listens at a port without the secret: it must refuse every request.
fn refuses_strangers(port: u16) -> Refused {
    if status_over_http(port, "/v1/models").is_some() {
        for path in ["/v1/models", "/server_info", "/is_paused", "/metrics", "/health", "/nothing"] {
            assert_eq!(status_over_http(port, path).as_deref(), Some("401"), "{path}");
        }
        return Refused::Engine;
    }
    let ends = ends_over_grpc(port);
    assert!(!ends.is_empty(), "{port}");
    for (service, code) in ends {
        assert_eq!(code, Code::Unauthenticated, "{service} at {port}");
    }
    Refused::Service
}

#[test]
fn a_process_without_the_secret_is_refused_by_every_server_of_a_run_which_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = recipe(dir.path());
    let out = dir.path().join("run");
    let mut train = train_recipe(&recipe, &out);
    train.args(["--set", "page.listen=off"]);
    let run = Process::start(train);
    // Learner, generation, reward, environment, and the engine.
    wait_for("five servers", || ports_of(&run).len() >= 5);
    let ports = ports_of(&run);
    assert_eq!(ports.len(), 5, "{ports:?}");
    let engines = ports.iter().filter(|port| refuses_strangers(**port) == Refused::Engine).count();
    assert_eq!(engines, 1, "{ports:?}");
    wait_for("the end of the run", || summary(&out).is_some_and(|summary| summary["state"] == "completed"));
    assert_eq!(rewards_missing(&out), 0, "its own clients were let in");
}

#[test]
fn behind_tinkers_front_every_server_refuses_a_process_without_the_secret() {
    let dir = tempfile::tempdir().unwrap();
    let front = Server::start(dir.path(), &[]);
    // Learner, generation, the engine, and the front, which clients call.
    wait_for("four servers", || ports_of(&front.process).len() >= 4);
    let mut ports = ports_of(&front.process);
    assert!(ports.remove(&front.port) && ports.len() == 3, "{ports:?}");
    let engines = ports.iter().filter(|port| refuses_strangers(**port) == Refused::Engine).count();
    assert_eq!(engines, 1, "{ports:?}");
}

#[test]
fn the_servers_of_an_evaluation_refuse_a_process_without_the_secret() {
    let dir = tempfile::tempdir().unwrap();
    let model = written_model(dir.path());
    // More than is answered before the test ends it.
    let benchmark = sums(dir.path(), "twos", 2, 5000);
    let evaluation = Process::start(eval(&model, &dir.path().join("answers"), &[&benchmark], &[]));
    // Generation, reward, and the engine.
    wait_for("three servers", || ports_of(&evaluation).len() >= 3);
    let ports = ports_of(&evaluation);
    assert_eq!(ports.len(), 3, "{ports:?}");
    let engines = ports.iter().filter(|port| refuses_strangers(**port) == Refused::Engine).count();
    assert_eq!(engines, 1, "{ports:?}");
}

/// Samples without a reward.
fn rewards_missing(run: &Path) -> usize {
    let steps = (1..=6).flat_map(|step| evenkeel_run::read_rollouts(run, step).unwrap());
    steps.filter(|rollout| rollout.reward.is_none()).count()
}
