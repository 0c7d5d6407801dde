//! `python`: programs in the sandbox, with an interpreter that lasts over the turns of an episode.

use std::time::Duration;

use evenkeel_config::ByteSize;
use evenkeel_proto::v1::{CloseReason, EpisodeFailure};
use serde_json::json;

use crate::support::{Worker, act, call, close, open, say, until};

/// A worker with a small sandbox.
async fn worker(memory: ByteSize) -> Worker {
    let folder = evenkeel_sandbox::guest::default_folder().unwrap();
    tokio::task::spawn_blocking(move || {
        evenkeel_guest::ensure(&folder, evenkeel_sandbox::guest::Form::Counted, &|_| {}).unwrap();
    })
    .await
    .unwrap();
    Worker::with(|settings| {
        settings.sandbox.memory = Some(memory);
        settings.sandbox.threads = 2;
        settings.sandbox.time = Duration::from_secs(1);
        settings.sandbox.output = 150;
    })
    .await
}

fn run(id: &str, turn: u32, codes: &[&str]) -> evenkeel_proto::v1::environment_request::Kind {
    let call_with = |code: &&str| call(turn, "python", &json!({"code": code}).to_string());
    act(id, turn, codes.iter().map(call_with).collect())
}

#[tokio::test]
async fn programs_of_an_episode_share_an_interpreter_and_their_faults_are_observations() {
    let worker = worker(ByteSize::mib(512)).await;
    let mut stream = worker.open().await;
    stream.begin("a", "python", "{}").await;
    let observed = stream.turn(run("a", 1, &["n = 6", "n * 7"])).await;
    let texts: Vec<_> = observed.messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!((texts, observed.tool_errors), (vec!["(no output)", "42"], 0));
    let observed = stream.turn(run("a", 2, &["n / 0", "n", "print('x' * 1000)"])).await;
    assert!(observed.messages[0].content.ends_with("ZeroDivisionError: division by zero"));
    assert_eq!(observed.messages[1].content, "6");
    assert!(observed.messages[2].content.ends_with("[cut off: 150 of 1001 characters]"));
    let observed = stream.turn(run("a", 3, &["print('so far')\nwhile True: pass", "n"])).await;
    let texts: Vec<_> = observed.messages.iter().map(|message| message.content.as_str()).collect();
    let ended = "so far\nerror: the program was ended: it took longer than 1 s. The interpreter starts anew, without \
        its variables.";
    assert_eq!(texts[0], ended);
    assert!(texts[1].contains("NameError"));
    let observed = stream.turn(act("a", 4, vec![call(4, "python", "{}"), call(4, "pyton", "{}")])).await;
    assert_eq!((observed.messages[0].content.as_str(), observed.tool_errors), ("error: `code` is required, a text", 2));
    assert!(stream.turn(say("a", 5, "\\boxed{42}")).await.done);
    assert_eq!(stream.scored().await, None, "the verifier of the task judges");
    stream.begin("b", "python", "{}").await;
    let observed = stream.turn(run("b", 1, &["n"])).await;
    assert!(observed.messages[0].content.contains("NameError"), "another episode has another interpreter");
}

#[tokio::test]
async fn an_episode_begins_only_where_its_memory_fits_and_a_busy_one_holds_up_no_other() {
    let worker = worker(ByteSize::mib(130)).await;
    let mut stream = worker.open().await;
    stream.begin("a", "python", "{}").await;
    stream.begin("b", "python", "{}").await;
    stream.send(open("c", "python", "{}")).await;
    let (failure, retryable, message) = stream.failed().await;
    assert_eq!((failure, retryable), (EpisodeFailure::Overloaded, true), "{message}");
    stream.send(run("a", 1, &["while True: pass"])).await;
    assert_eq!(stream.turn(run("b", 1, &["1 + 1"])).await.messages[0].content, "2", "it does not wait for the other");
    stream.observed().await;
    stream.send(close("a", CloseReason::Cancelled)).await;
    until(|| async { worker.status().await.open_episodes == 1 }).await;
    stream.begin("c", "python", "{}").await;
    stream.send(close("c", CloseReason::Budget)).await;
    assert_eq!(stream.scored().await, None);
}
