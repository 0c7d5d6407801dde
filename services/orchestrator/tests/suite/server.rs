//! The service over gRPC: start, watch, stop, resume, list.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::recipe::{Program, reader};
use crate::support::{Cluster, bounded, recipe, until};
use evenkeel_orchestrator::{OrchestratorSettings, StartSettings, serve};
use evenkeel_proto::v1::orchestrator_client::OrchestratorClient;
use evenkeel_proto::v1::{
    ForkPoint, GetRunRequest, ListRunsRequest, OrchestratorGetStatusRequest, RunState, StartRunRequest, StepKind,
    StopRunRequest, WatchRunRequest, start_run_request::Configuration,
};
use evenkeel_rpc::client::{ClientChannel, ClientSettings, Connector, ServerAddress};
use tonic::Code;

/// An orchestrator server with its client.
pub(crate) struct TestServer {
    _running: evenkeel_rpc::server::RunningServer,
    pub(crate) client: OrchestratorClient<ClientChannel>,
    pub(crate) dir: tempfile::TempDir,
}

pub(crate) async fn serve_runs(cluster: &Cluster) -> TestServer {
    serve_runs_with(cluster, OrchestratorSettings::default()).await
}

/// A server with other settings than the defaults.
pub(crate) async fn serve_runs_with(cluster: &Cluster, settings: OrchestratorSettings) -> TestServer {
    let dir = tempfile::tempdir().unwrap();
    let settings = OrchestratorSettings { runs: dir.path().to_owned(), endpoints: cluster.endpoints(), ..settings };
    let (server, _) = serve(settings, reader()).await.unwrap();
    let running = server.spawn();
    let connector = Connector::new("client", ClientSettings::default()).unwrap();
    let client = OrchestratorClient::new(connector.connect(&ServerAddress::new(running.endpoint())).await.unwrap());
    TestServer { _running: running, client, dir }
}

pub(crate) fn start(run_id: &str) -> StartRunRequest {
    let toml = toml::to_string(&Program::of(&recipe())).unwrap();
    StartRunRequest {
        run_id: run_id.into(),
        configuration: Some(Configuration::Toml(toml)),
        ..StartRunRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_started_once_watched_and_listed() {
    bounded(async {
        let cluster = Cluster::start().await;
        let mut server = serve_runs(&cluster).await;
        let run = server.client.start_run(start("first")).await.unwrap().into_inner().run.unwrap();
        assert_eq!((run.run_id.as_str(), run.total_steps), ("first", 6));
        server.client.start_run(start("first")).await.unwrap();
        let other = StartRunRequest { overrides: vec!["run.seed=99".into()], ..start("first") };
        assert_eq!(server.client.start_run(other).await.unwrap_err().code(), Code::AlreadyExists);

        let watch = |run_id: &str| WatchRunRequest { run_id: run_id.into(), from_step: Some(0), progress_ms: None };
        let mut stream = server.client.watch_run(watch("first")).await.unwrap().into_inner();
        let mut live = Vec::new();
        while let Some(line) = stream.message().await.unwrap() {
            live.push((line.kind(), line.step));
        }
        let steps_of = |kind: StepKind, lines: &[(StepKind, u64)]| {
            lines.iter().filter(|line| line.0 == kind).map(|line| line.1).collect::<Vec<_>>()
        };
        assert_eq!(steps_of(StepKind::Train, &live), [1, 2, 3, 4, 5, 6]);
        assert_eq!(steps_of(StepKind::WarmStart, &live), [1, 2]);
        assert_eq!(steps_of(StepKind::Evaluation, &live), [0, 6]);

        let request = GetRunRequest { run_id: "first".into() };
        crate::support::until_async(async || {
            let run = server.client.clone().get_run(request.clone()).await.unwrap().into_inner().run.unwrap();
            run.state() == RunState::Completed && run.step == 6
        })
        .await;
        let mut stream = server.client.watch_run(watch("first")).await.unwrap().into_inner();
        let mut stored = Vec::new();
        while let Some(line) = stream.message().await.unwrap() {
            stored.push((line.kind(), line.step));
        }
        assert_eq!(stored.len(), live.len());
        let runs = server.client.list_runs(ListRunsRequest::default()).await.unwrap().into_inner().runs;
        assert_eq!(runs.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["first"]);
        let status = server.client.get_status(OrchestratorGetStatusRequest {}).await.unwrap().into_inner();
        assert_eq!((status.active_runs.len(), status.dependencies.len()), (0, 3));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_of_a_long_step_see_the_progress_of_its_samples() {
    bounded(async {
        let cluster = Cluster::start().await;
        cluster.generation.state.max_delay_ms.store(400, Ordering::Relaxed);
        let mut server = serve_runs(&cluster).await;
        server.client.start_run(start("long")).await.unwrap();
        let request = WatchRunRequest { run_id: "long".into(), from_step: None, progress_ms: Some(20) };
        let mut stream = server.client.watch_run(request).await.unwrap().into_inner();
        let mut counts = Vec::new();
        while let Some(line) = stream.message().await.unwrap() {
            if line.kind() == StepKind::Progress {
                assert!(line.values["progress/samples_done"] <= line.values["progress/samples"]);
                assert!(line.values["progress/silent_s"] >= 0.02);
                counts.push((line.step, line.values["progress/samples_done"] as u64));
            }
        }
        // Samples of one step, 16 in all, are seen on their way.
        let moved = |pair: &[(u64, u64)]| pair[0].0 == pair[1].0 && pair[0].1 < pair[1].1;
        assert!(counts.windows(2).any(moved), "{counts:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_forked_from_a_step_of_another_one() {
    bounded(async {
        let cluster = Cluster::start().await;
        let mut server = serve_runs(&cluster).await;
        let watched = async |client: &mut OrchestratorClient<ClientChannel>, run_id: &str| {
            let request = WatchRunRequest { run_id: run_id.into(), from_step: Some(0), progress_ms: None };
            let mut stream = client.watch_run(request).await.unwrap().into_inner();
            let mut lines = Vec::new();
            while let Some(line) = stream.message().await.unwrap() {
                let scores = line.values.get("critic/score/mean").copied();
                lines.push((line.kind(), line.step, scores, line.values.get("training/forked_at_step").copied()));
            }
            lines
        };
        let ended = async |client: &OrchestratorClient<ClientChannel>, run_id: &str| {
            let request = GetRunRequest { run_id: run_id.into() };
            crate::support::until_async(async || {
                let run = client.clone().get_run(request.clone()).await.unwrap().into_inner().run.unwrap();
                matches!(run.state(), RunState::Completed | RunState::Failed)
            })
            .await;
        };
        server.client.start_run(start("old")).await.unwrap();
        ended(&server.client, "old").await;
        let old = watched(&mut server.client, "old").await;

        let fork = |run_id: &str, step: u64| StartRunRequest {
            run_id: run_id.into(),
            configuration: Some(Configuration::Fork(ForkPoint { run_id: "old".into(), step })),
            ..StartRunRequest::default()
        };
        server.client.start_run(fork("new", 4)).await.unwrap();
        ended(&server.client, "new").await;
        let new = watched(&mut server.client, "new").await;
        let same = |line: &(StepKind, u64, Option<f64>, Option<f64>)| (line.0, line.1, line.2);
        assert_eq!(new.iter().map(same).collect::<Vec<_>>(), old.iter().map(same).collect::<Vec<_>>());
        let marked = new.iter().filter(|line| line.3 == Some(4.0)).map(|line| line.1).collect::<Vec<_>>();
        assert_eq!(marked, [5, 6, 6], "steps 5 and 6, and the evaluation after them");

        // The learner has no checkpoint of an odd step.
        server.client.start_run(fork("gone", 3)).await.unwrap();
        ended(&server.client, "gone").await;
        let run =
            server.client.get_run(GetRunRequest { run_id: "gone".into() }).await.unwrap().into_inner().run.unwrap();
        assert!(run.state() == RunState::Failed && run.message.contains("LoadCheckpoint"), "{run:?}");
        let request = ForkPoint { run_id: "nobody".into(), step: 1 };
        let configuration = Some(Configuration::Fork(request));
        let status = server.client.start_run(StartRunRequest { configuration, ..fork("x", 1) }).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_stopped_resumed_and_alone() {
    bounded(async {
        let cluster = Cluster::start().await;
        cluster.generation.state.max_delay_ms.store(60, Ordering::Relaxed);
        let mut server = serve_runs(&cluster).await;
        server.client.start_run(start("a")).await.unwrap();
        let busy = server.client.start_run(start("b")).await.unwrap_err();
        assert_eq!(busy.code(), Code::FailedPrecondition);
        assert!(busy.message().contains("run `a` is active"), "{busy}");
        let request = StopRunRequest { run_id: "a".into(), ..StopRunRequest::default() };
        let run = server.client.stop_run(request.clone()).await.unwrap().into_inner().run.unwrap();
        assert_eq!(run.state(), RunState::Stopped);
        assert_eq!(server.client.stop_run(request).await.unwrap().into_inner().run.unwrap().state(), RunState::Stopped);

        cluster.generation.state.max_delay_ms.store(0, Ordering::Relaxed);
        // As if the data had changed since the run began.
        let inputs = server.dir.path().join("a/inputs.json");
        let text = std::fs::read_to_string(&inputs).unwrap();
        std::fs::write(&inputs, text.replace("sha256:", "sha256:0")).unwrap();
        let resume =
            StartRunRequest { run_id: "a".into(), resume: true, total_steps: Some(3), ..StartRunRequest::default() };
        let changed = server.client.start_run(resume.clone()).await.unwrap_err();
        assert!(changed.message().contains("StartRun: accept_changed_inputs"), "{changed}");
        server.client.start_run(StartRunRequest { accept_changed_inputs: true, ..resume }).await.unwrap();
        let request = GetRunRequest { run_id: "a".into() };
        crate::support::until_async(async || {
            let run = server.client.clone().get_run(request.clone()).await.unwrap().into_inner().run.unwrap();
            run.state() == RunState::Completed && run.step == 3
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_names_its_field() {
    bounded(async {
        let cluster = Cluster::start().await;
        let mut server = serve_runs(&cluster).await;
        let toml = |text: &str| StartRunRequest {
            run_id: "x".into(),
            configuration: Some(Configuration::Toml(text.into())),
            ..StartRunRequest::default()
        };
        let cases = [
            (toml("[sampling]\ngroup_sise = 4"), Code::InvalidArgument, "sampling.group_sise"),
            (toml("[sampling]\ngroup_size = 0"), Code::InvalidArgument, "sampling.group_size is 0"),
            (toml("[learner]\nlearning_rate = 1"), Code::InvalidArgument, "learner.learning_rate is 1"),
            (toml("="), Code::InvalidArgument, "configuration"),
            (StartRunRequest { run_id: "../x".into(), ..start("") }, Code::InvalidArgument, "run_id is \"../x\""),
            (StartRunRequest { configuration: None, ..start("x") }, Code::InvalidArgument, "configuration is absent"),
            (StartRunRequest { resume: true, ..start("x") }, Code::NotFound, "run `x` not found"),
            (
                StartRunRequest { accept_changed_inputs: true, ..start("x") },
                Code::InvalidArgument,
                "accept_changed_inputs is true, allowed: only with resume",
            ),
            (
                StartRunRequest { configuration: Some(Configuration::Recipe("algebra".into())), ..start("x") },
                Code::InvalidArgument,
                "recipe is \"algebra\", allowed: one of arithmetic",
            ),
        ];
        for (request, code, words) in cases {
            let status = server.client.start_run(request).await.unwrap_err();
            assert_eq!(status.code(), code, "{status}");
            assert!(status.message().contains(words), "{status}");
        }
        let missing = server.client.get_run(GetRunRequest { run_id: "unknown".into() }).await.unwrap_err();
        assert_eq!(missing.code(), Code::NotFound);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configured_run_without_its_end_is_resumed_though_all_its_steps_have_lines() {
    bounded(async {
        let cluster = Cluster::start().await;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("own.toml");
        let runs = dir.path().join("runs");
        std::fs::write(&file, toml::to_string(&Program::of(&recipe())).unwrap()).unwrap();
        let settings = OrchestratorSettings {
            runs: runs.clone(),
            endpoints: cluster.endpoints(),
            start: StartSettings { recipe: vec![file.display().to_string()], ..StartSettings::default() },
            ..OrchestratorSettings::default()
        };
        let path = runs.join("own/summary.json");
        let summary = || std::fs::read_to_string(&path).unwrap_or_default();
        for _ in 0..2 {
            let (server, service) = serve(settings.clone(), reader()).await.unwrap();
            let running = server.spawn();
            // The run before writes its summary a moment before it lets go of its directory.
            while let Err(error) = service.start_configured().await {
                assert!(error.to_string().contains("another process writes to it"), "{error}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            until(|| summary().contains("\"completed\"")).await;
            running.stop().await.unwrap();
            // As a process leaves it that is killed before it has written that the run is over.
            std::fs::write(&path, summary().replace("\"completed\"", "\"training\"")).unwrap();
        }
    })
    .await;
}
