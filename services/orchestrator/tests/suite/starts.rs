//! Starting runs over gRPC: a refused start leaves nothing behind, loading blocks no other call, OK means that the run
//! has started.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use evenkeel_proto::v1::start_run_request::Configuration;
use evenkeel_proto::v1::{GetRunRequest, ListRunsRequest, RunState, StartRunRequest, StopRunRequest};
use tonic::Code;

use evenkeel_orchestrator::{OrchestratorSettings, serve};
use evenkeel_rpc::client::ClientSettings;
use evenkeel_rpc::server::ServerSettings;

use crate::server::{TestServer, serve_runs, serve_runs_with, start};
use crate::support::recipe::reader;
use crate::support::{Cluster, LEARNER, bounded, until_async};

fn with(run_id: &str, overrides: &[&str]) -> StartRunRequest {
    StartRunRequest { overrides: overrides.iter().map(|text| (*text).to_owned()).collect(), ..start(run_id) }
}

/// Names in the folder of runs.
fn run_folders(server: &TestServer) -> Vec<String> {
    let entries = std::fs::read_dir(server.dir.path()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

async fn completes(server: &TestServer, run_id: &str) {
    until_async(async || {
        let request = GetRunRequest { run_id: run_id.into() };
        let run = server.client.clone().get_run(request).await.unwrap().into_inner().run.unwrap();
        assert_ne!(run.state(), RunState::Failed, "{}", run.message);
        run.state() == RunState::Completed
    })
    .await;
}

fn pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_start_leaves_nothing_behind_and_is_refused_again() {
    bounded(async {
        let cluster = Cluster::start().await;
        let mut server = serve_runs(&cluster).await;
        let files = tempfile::tempdir().unwrap();
        let fifo = files.path().join("rows.jsonl");
        pipe(&fifo);
        // As `/proc/self/fd/0` is: what the server itself has open, and what never ends.
        let endless = File::options().read(true).write(true).open(&fifo).unwrap();
        let zeros = File::open("/dev/zero").unwrap();
        let of_this_process = |file: &File| format!("/proc/self/fd/{}", file.as_raw_fd());
        let model = files.path().join("model");
        std::fs::create_dir(&model).unwrap();
        std::fs::write(model.join("config.json"), "{}").unwrap();
        pipe(&model.join("tokenizer.json"));
        let rows = files.path().join("games.jsonl");
        std::fs::write(&rows, "{\"prompt\": \"1+1=\", \"answer\": 2}\n{\"prompt\": \"1+2=\", \"answer\": 3}\n")
            .unwrap();
        let rows = format!("data.files={}", rows.display());
        let elsewhere = "data.verifiers.games.endpoints=http://127.0.0.1:1";
        let judged_elsewhere =
            with("x", &[&rows, "data.verifier=games", elsewhere, "evaluation.problems=0", "warm_start.steps=0"]);
        let judged_by_a_file =
            |path: &str| with("x", &[&rows, "data.verifier=games", &format!("data.verifiers.games.path={path}")]);
        let jsonl = |path: &str| with("x", &[&format!("data.files={path}")]);
        let cases = [
            (jsonl("/nowhere/rows.jsonl"), "does not exist"),
            (jsonl("/dev/zero"), "allowed: a regular file"),
            (jsonl("/dev/stdin/../zero"), "cannot be read"),
            (jsonl(fifo.to_str().unwrap()), "allowed: a regular file"),
            (jsonl("/proc"), "is a directory"),
            (jsonl(&of_this_process(&endless)), "allowed: a regular file"),
            (jsonl(&of_this_process(&zeros)), "allowed: a regular file"),
            (with("x", &["model.fresh.hidden_size=1000000000"]), "allowed: at most 1000000000"),
            (with("x", &["model.fresh.hidden_size=400000"]), "limits.max_fresh_parameters"),
            (with("x", &["model.fresh.layers=5000"]), "model.fresh.layers is 5000"),
            (with("x", &[&format!("model.path={}", model.display())]), "allowed: a regular file"),
            (with("x", &["services.client.token_file=/dev/zero"]), "allowed: a regular file"),
            (judged_elsewhere, "limits.verifier_addresses"),
            (judged_by_a_file("/etc/shadow"), "data.verifiers.games.path is \"/etc/shadow\", allowed: absent"),
            (
                judged_by_a_file("/nowhere/reward.py"),
                "data.verifiers.games.path is \"/nowhere/reward.py\", allowed: absent",
            ),
            (with("x", &["warm_start.examples_per_step=4000000000"]), "limits.max_step_samples"),
        ];
        for (request, words) in cases {
            for _ in 0..2 {
                let status = server.client.start_run(request.clone()).await.unwrap_err();
                assert_eq!(status.code(), Code::InvalidArgument, "{status}");
                assert!(status.message().contains(words), "{words}: {status}");
                assert_eq!(run_folders(&server), [""; 0]);
            }
        }
        assert_eq!(server.client.list_runs(ListRunsRequest::default()).await.unwrap().into_inner().runs, []);
        server.client.start_run(start("x")).await.unwrap();
        completes(&server, "x").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recipe_that_is_none_is_refused_in_a_message_that_clients_can_take() {
    bounded(async {
        let cluster = Cluster::start().await;
        let mut server = serve_runs(&cluster).await;
        let texts =
            ["[".repeat(100_000), "\x1b[31m\nrun = 7".to_owned(), "答".repeat(100_000), "a = 1\n".repeat(10_000)];
        for text in texts {
            let request = StartRunRequest { configuration: Some(Configuration::Toml(text)), ..start("x") };
            let status = server.client.start_run(request).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{status}");
            assert!(!status.message().contains(['\n', '\x1b']), "{status}");
        }
        for run_id in ["a\n\x1b[31m", "../x", "..", &"x".repeat(1 << 20), &"答".repeat(1 << 18)] {
            let status = server.client.start_run(start(run_id)).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        }
        assert_eq!(run_folders(&server), [""; 0]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_calls_are_answered_while_a_run_is_loaded_and_a_stop_takes_it_back() {
    bounded(async {
        let cluster = Cluster::start().await;
        let mut server = serve_runs(&cluster).await;
        let files = tempfile::tempdir().unwrap();
        let rows = files.path().join("rows.jsonl");
        // Seconds of work, so that it is still going on when others call.
        let text: String =
            (0..400_000).map(|i| format!("{{\"prompt\": \"what is {i} and {i}?\", \"answer\": {i}}}\n")).collect();
        std::fs::write(&rows, text).unwrap();
        let request = with("x", &[&format!("data.files={}", rows.display()), "warm_start.steps=0"]);
        for hang_up in [false, true] {
            let mut starting = server.client.clone();
            let request = request.clone();
            let call = tokio::spawn(async move { starting.start_run(request).await });
            let get = GetRunRequest { run_id: "x".into() };
            until_async(async || {
                let run = server.client.clone().get_run(get.clone()).await;
                assert!(!call.is_finished(), "the run was loaded before it could be observed");
                run.is_ok_and(|run| run.into_inner().run.unwrap().state() == RunState::Starting)
            })
            .await;
            let runs = server.client.list_runs(ListRunsRequest::default()).await.unwrap().into_inner().runs;
            assert_eq!(runs.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["x"]);
            let busy = server.client.start_run(start("y")).await.unwrap_err();
            assert_eq!(busy.code(), Code::FailedPrecondition, "{busy}");
            let conflict = server.client.start_run(start("x")).await.unwrap_err();
            assert_eq!(conflict.code(), Code::Aborted, "{conflict}");
            if hang_up {
                call.abort();
            } else {
                let stop = StopRunRequest { run_id: "x".into(), ..StopRunRequest::default() };
                let run = server.client.stop_run(stop).await.unwrap().into_inner().run.unwrap();
                assert_eq!(run.state(), RunState::Stopped);
                assert_eq!(call.await.unwrap().unwrap_err().code(), Code::Cancelled);
            }
            until_async(async || {
                run_folders(&server).is_empty() && server.client.clone().get_run(get.clone()).await.is_err()
            })
            .await;
        }
        server.client.start_run(start("x")).await.unwrap();
        completes(&server, "x").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_call_twice_at_once_starts_one_run() {
    bounded(async {
        let cluster = Cluster::start().await;
        let server = serve_runs(&cluster).await;
        let calls = (0..6).map(|_| {
            let mut client = server.client.clone();
            tokio::spawn(async move { client.start_run(start("x")).await })
        });
        for call in calls.collect::<Vec<_>>() {
            assert_eq!(call.await.unwrap().unwrap().into_inner().run.unwrap().run_id, "x");
        }
        completes(&server, "x").await;
        assert!(cluster.learner.state.done.lock().unwrap().values().all(|times| *times == 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_its_services_refuse_never_began_and_its_name_is_free() {
    bounded(async {
        let mut cluster = Cluster::start().await;
        let mut server = serve_runs(&cluster).await;
        server.client.start_run(start("first")).await.unwrap();
        completes(&server, "first").await;
        // The learner still holds the first run's weights, which turns out when the services are asked. The first run
        // says that it is completed a moment before it makes way.
        until_async(async || server.client.clone().start_run(start("second")).await.is_ok()).await;
        until_async(async || {
            let request = GetRunRequest { run_id: "second".into() };
            let run = server.client.clone().get_run(request).await.unwrap().into_inner().run.unwrap();
            run.state() == RunState::Failed
                && run.message.contains("restart it for `second`")
                && run_folders(&server) == ["first"]
        })
        .await;
        // It says that it failed a moment before it makes way, too.
        let resume = StartRunRequest { resume: true, ..start("second") };
        until_async(async || match server.client.clone().start_run(resume.clone()).await {
            Ok(response) => {
                assert_eq!(response.into_inner().run.unwrap().state(), RunState::Failed);
                false
            }
            Err(status) => status.code() == Code::NotFound,
        })
        .await;

        cluster.down(LEARNER).await;
        cluster.up(LEARNER).await;
        // Corrected in one setting: the name is free again.
        let mut run = None;
        until_async(async || {
            run = server.client.clone().start_run(with("second", &["run.seed=12"])).await.ok();
            run.is_some()
        })
        .await;
        completes(&server, "second").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_clients_call_the_services_with_the_servers_own_token() {
    bounded(async {
        let files = tempfile::tempdir().unwrap();
        let token = files.path().join("token");
        std::fs::write(&token, "the-token-of-the-orchestrator\n").unwrap();
        let services = ServerSettings { token_file: Some(token.clone()), ..ServerSettings::default() };
        let cluster = Cluster::start_with(services).await;
        let client = ClientSettings { token_file: Some(token.clone()), ..ClientSettings::default() };
        let settings = OrchestratorSettings { client: Some(client), ..OrchestratorSettings::default() };
        let mut server = serve_runs_with(&cluster, settings).await;
        server.client.start_run(start("named-by-nobody")).await.unwrap();
        completes(&server, "named-by-nobody").await;
        let written = std::fs::read_to_string(server.dir.path().join("named-by-nobody/config.toml")).unwrap();
        assert!(!written.contains("token_file"), "{written}");
    })
    .await;
}

#[tokio::test]
async fn a_server_whose_own_token_cannot_be_read_does_not_start() {
    let client = ClientSettings { token_file: Some("/nowhere/token".into()), ..ClientSettings::default() };
    let settings = OrchestratorSettings { client: Some(client), ..OrchestratorSettings::default() };
    let error = serve(settings, reader()).await.err().unwrap().to_string();
    assert!(error.starts_with("`client.token_file` names /nowhere/token"), "{error}");
}
