//! Tasksets of verifiers, played by a stand-in for the package in processes that play several episodes at once.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_environment_service::{EnvironmentSettings, bind};
use evenkeel_proto::v1::environment_event::Kind as Event;
use evenkeel_proto::v1::{CloseReason, EpisodeFailure};
use serde_json::{Value, json};

use crate::support::{Stream, Worker, close, open, say, until};

const NAME: &str = "verifiers:shelves";

/// An interpreter that finds the stand-in.
struct Python {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Python {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("python");
        let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/episodes/stand_in");
        let script =
            format!("#!/bin/sh\nPYTHONDONTWRITEBYTECODE=1 PYTHONPATH={} exec python3 \"$@\"\n", stand_in.display());
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { _folder: folder, path }
    }

    fn settings(&self, settings: &mut EnvironmentSettings) {
        settings.python.clone_from(&self.path);
        settings.verifiers.insert("shelves".to_owned(), BTreeMap::new());
        settings.processes = 1;
        settings.step_deadline = Duration::from_secs(10);
    }

    async fn worker(&self) -> Worker {
        Worker::with(|settings| self.settings(settings)).await
    }
}

fn row(what: &str) -> String {
    json!({"environment_task": {"do": what, "prompt": "a?"}}).to_string()
}

async fn begin(stream: &mut Stream, id: &str, what: &str) {
    stream.send(open(id, NAME, &row(what))).await;
    match stream.kind().await {
        Event::Opened(opened) => {
            let conversation: Value = serde_json::from_slice(&opened.request.unwrap().conversation).unwrap();
            assert_eq!(conversation["messages"], json!([{"role": "user", "content": "a?"}]));
        }
        other => panic!("{what}: {other:?}"),
    }
}

#[tokio::test]
async fn a_task_is_played_by_its_taskset_whose_rewards_are_the_score() {
    let python = Python::new();
    let worker = python.worker().await;
    let info = worker.status().await.environments.into_iter().find(|info| info.name == NAME).unwrap();
    assert!(info.is_agent && info.digest.starts_with("sha256:"), "{}", info.digest);
    let mut stream = worker.open().await;
    for id in ["1", "2", "3"] {
        begin(&mut stream, id, "ask").await;
    }
    for (id, said, reward) in [("2", "b", 1.0), ("1", "c", 0.25), ("3", "b", 1.0)] {
        assert!(stream.turn(say(id, 1, said)).await.done);
        let verdict = stream.scored().await.unwrap();
        assert_eq!((verdict.reward, verdict.components["short"]), (Some(reward), 1.0), "{id}");
    }
}

#[tokio::test]
async fn errors_of_a_trace_and_rewards_that_are_none_are_failures() {
    let python = Python::new();
    let worker = python.worker().await;
    let mut stream = worker.open().await;
    for (what, words) in [
        ("raise", "RuntimeError: the shelf fell down"),
        ("error", "HarnessError: harness 'null' exited 1"),
        ("unscored", "the taskset has no reward for the episode"),
        ("high", "the reward of the episode is 7.0, allowed: 0.0 to 1.0 (environment.verifiers_range)"),
    ] {
        begin(&mut stream, what, what).await;
        stream.send(say(what, 1, "b")).await;
        let (failure, retryable, message) = stream.failed().await;
        assert_eq!((failure, retryable), (EpisodeFailure::Crashed, true), "{what}");
        assert!(message.contains(words), "{what}: {message}");
    }
}

#[tokio::test]
async fn a_row_that_is_no_task_is_not_tried_again() {
    let python = Python::new();
    let worker = python.worker().await;
    let mut stream = worker.open().await;
    for (row, words) in [
        ("{}", "the row has no column `environment_task`"),
        (r#"{"environment_task": {"a": 1}}"#, "environment_task: ValueError: do: Field required"),
    ] {
        stream.send(open("a", NAME, row)).await;
        let (failure, retryable, message) = stream.failed().await;
        assert_eq!((failure, retryable), (EpisodeFailure::TaskInvalid, false));
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn an_episode_that_hangs_is_cancelled_and_one_that_blocks_its_process_ends_it() {
    let python = Python::new();
    let worker = Worker::with(|settings| {
        python.settings(settings);
        settings.step_deadline = Duration::from_secs(3);
    })
    .await;
    let mut stream = worker.open().await;
    begin(&mut stream, "bystander", "ask").await;
    begin(&mut stream, "hang", "hang").await;
    stream.send(say("hang", 1, "b")).await;
    assert_eq!(stream.failed().await.0, EpisodeFailure::Timeout);
    assert!(stream.turn(say("bystander", 1, "b")).await.done, "the others there go on");
    assert_eq!(stream.scored().await.unwrap().reward, Some(1.0));

    begin(&mut stream, "lost", "ask").await;
    begin(&mut stream, "block", "block").await;
    stream.send(say("block", 1, "b")).await;
    assert_eq!(stream.failed().await.0, EpisodeFailure::Timeout);
    // It does not even cancel: its process is ended, which shows in the next turn of those there.
    tokio::time::sleep(Duration::from_secs(7)).await;
    stream.send(say("lost", 1, "b")).await;
    let (failure, retryable, message) = stream.failed().await;
    assert_eq!((failure, retryable), (EpisodeFailure::Crashed, true));
    assert!(message.contains("an episode there did not end within"), "{message}");
    begin(&mut stream, "next", "ask").await;
    assert!(stream.turn(say("next", 1, "b")).await.done);
}

#[tokio::test]
async fn a_process_that_ends_loses_its_episodes_and_the_next_one_has_another() {
    let python = Python::new();
    let worker = python.worker().await;
    let mut stream = worker.open().await;
    begin(&mut stream, "exit", "exit").await;
    stream.send(say("exit", 1, "b")).await;
    let (failure, retryable, message) = stream.failed().await;
    assert_eq!((failure, retryable), (EpisodeFailure::Crashed, true));
    assert!(message.contains("ended with exit status: 3: noise that is no answer | out of shelves"), "{message}");
    begin(&mut stream, "next", "ask").await;
    stream.send(close("next", CloseReason::Cancelled)).await;
    until(|| async { worker.status().await.open_episodes == 0 }).await;
}

#[tokio::test]
async fn a_child_that_a_taskset_forks_gives_no_result_of_its_own() {
    let python = Python::new();
    let worker = python.worker().await;
    let mut stream = worker.open().await;
    begin(&mut stream, "bystander", "ask").await;
    begin(&mut stream, "fork", "fork").await;
    assert!(stream.turn(say("fork", 1, "b")).await.done);
    assert_eq!(stream.scored().await.unwrap().reward, Some(1.0));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(stream.turn(say("bystander", 1, "b")).await.done, "its process still plays");
    assert_eq!(stream.scored().await.unwrap().reward, Some(1.0));
}

#[tokio::test]
async fn a_process_whose_pipe_somebody_else_writes_to_is_believed_no_more() {
    let python = Python::new();
    let worker = python.worker().await;
    let mut stream = worker.open().await;
    begin(&mut stream, "bystander", "ask").await;
    begin(&mut stream, "stray", "stray").await;
    for episode in ["stray", "bystander"] {
        stream.send(say(episode, 1, "b")).await;
        let (failure, retryable, message) = stream.failed().await;
        assert_eq!((failure, retryable), (EpisodeFailure::Crashed, true), "{episode}: {message}");
        assert!(message.contains("something else writes to its pipe"), "{episode}: {message}");
        // Its process has ended by now.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    begin(&mut stream, "next", "ask").await;
    assert!(stream.turn(say("next", 1, "b")).await.done, "another process");
}

#[tokio::test]
async fn what_cannot_be_played_is_refused_when_the_worker_starts() {
    let python = Python::new();
    let mut settings = EnvironmentSettings::on("127.0.0.1:0");
    python.settings(&mut settings);
    settings.verifiers.insert("shelves".to_owned(), [("agent".to_owned(), json!({"max_turns": 0}))].into());
    let error = bind(settings).await.err().unwrap().to_string();
    assert_eq!(error, "environment.verifiers: shelves: ValueError: agent.max_turns: Input should be greater than 0");
    let mut settings = EnvironmentSettings::on("127.0.0.1:0");
    settings.verifiers.insert("shelves".to_owned(), BTreeMap::new());
    let error = bind(settings).await.err().unwrap().to_string();
    assert_eq!(error, "environment.verifiers: shelves: ModuleNotFoundError: No module named 'verifiers'");
}
