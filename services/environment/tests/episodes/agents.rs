//! Agents that run episodes by themselves: their requests are turns, and what they do wrong is no failure of the model.

use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_config::ByteSize;
use evenkeel_environment_service::{EnvironmentSettings, bind};
use evenkeel_proto::v1::environment_event::Kind as Event;
use evenkeel_proto::v1::environment_request::Kind;
use evenkeel_proto::v1::{
    Act, AssistantMessage, CloseReason, EpisodeFailure, FinishReason, MessageRole, ModelRequest, SampledToken, ToolCall,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Stream, Worker, act, call, close, open, say, until};

/// Does what a task says.
fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/episodes/agent.py")
}

fn name() -> String {
    format!("agent:{}", program().display())
}

async fn worker(change: impl FnOnce(&mut EnvironmentSettings)) -> Worker {
    Worker::with(|settings| {
        settings.agents = vec![program()];
        settings.step_deadline = Duration::from_secs(20);
        change(settings);
    })
    .await
}

fn task(what: &str) -> String {
    json!({"do": what}).to_string()
}

/// Opens an episode. Returns the messages and the tools that the agent asks with first.
async fn begin(stream: &mut Stream, id: &str, task: &str) -> (Value, ModelRequest) {
    stream.send(open(id, &name(), task)).await;
    match stream.kind().await {
        Event::Opened(opened) => asked(opened.request),
        other => panic!("{other:?}"),
    }
}

fn asked(request: Option<ModelRequest>) -> (Value, ModelRequest) {
    let request = request.expect("an agent asks");
    (serde_json::from_slice(&request.conversation).unwrap_or_default(), request)
}

/// Says a text, with the tokens that it takes.
fn text(id: &str, turn: u32, text: &str) -> Kind {
    match say(id, turn, text) {
        Kind::Act(act) => {
            let message = AssistantMessage { text: text.to_owned(), ..act.message.clone().unwrap() };
            Kind::Act(Act { message: Some(message), prompt_tokens: 5, sampled_tokens: 7, ..act })
        }
        other => other,
    }
}

async fn fails(worker: &Worker, id: &str, task: &str) -> (EpisodeFailure, bool, String) {
    let mut stream = worker.open().await;
    stream.send(open(id, &name(), task)).await;
    match stream.kind().await {
        Event::Failed(failed) => (failed.failure(), failed.retryable, failed.message),
        Event::Opened(_) => {
            stream.send(text(id, 1, "b")).await;
            stream.failed().await
        }
        other => panic!("{other:?}"),
    }
}

fn is_running(pid: u64) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // One that nobody has waited for yet is over.
    status.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn the_requests_of_an_agent_are_turns_and_its_last_line_is_the_score() {
    let worker = worker(|_| {}).await;
    let info = worker.status().await.environments.into_iter().find(|info| info.name == name()).unwrap();
    assert!(info.is_agent && info.tools.is_empty() && info.digest.len() == 71);
    let mut stream = worker.open().await;
    let row = json!({"do": "talk", "prompt": "1+2?", "max_tokens": 9}).to_string();
    let (conversation, request) = begin(&mut stream, "a", &row).await;
    assert_eq!(conversation["messages"], json!([{"role": "user", "content": "1+2?"}]));
    assert_eq!((&conversation["tools"][0]["function"]["name"], request.max_tokens), (&json!("add"), Some(9)));
    stream.send(open("a", &name(), &row)).await;
    assert!(matches!(stream.kind().await, Event::Opened(again) if again.request == Some(request)), "nothing changes");

    let observed = stream.turn(act("a", 1, vec![call(1, "add", "{\"a\": 1, \"b\": 2}")])).await;
    let [message] = &observed.messages[..] else { panic!("{observed:?}") };
    assert_eq!(
        (message.role(), message.content.as_str(), message.tool_call_id.as_str()),
        (MessageRole::Tool, "3", "call_1")
    );
    let (conversation, _) = asked(observed.request);
    assert_eq!(conversation, Value::Null, "it goes on with what was said");
    assert!(stream.turn(text("a", 2, "3")).await.done);
    let verdict = stream.scored().await.unwrap();
    assert_eq!((verdict.reward, verdict.components["calls"]), (Some(1.0), 1.0));
}

#[tokio::test]
async fn an_agent_may_ask_for_tokens_and_for_texts_that_end_an_answer() {
    let worker = worker(|_| {}).await;
    let mut stream = worker.open().await;
    let (_, request) = begin(&mut stream, "a", &task("tokens")).await;
    assert_eq!((request.stop, request.wants_tokens), (vec![".".to_owned()], true));
    let Kind::Act(act) = text("a", 1, "b") else { panic!() };
    let tokens = vec![SampledToken { id: 7, text: "b".to_owned(), log_probability: -0.5 }];
    assert!(stream.turn(Kind::Act(Act { prompt_token_ids: vec![1, 2], tokens, ..act })).await.done);
    assert_eq!(stream.scored().await.unwrap().reward, Some(1.0));
}

#[tokio::test]
async fn an_agent_that_gives_no_reward_leaves_it_to_the_verifier_of_the_row() {
    let worker = worker(|_| {}).await;
    let mut stream = worker.open().await;
    begin(&mut stream, "a", &task("silent")).await;
    assert!(stream.turn(text("a", 1, "b")).await.done);
    assert_eq!(stream.scored().await, None, "a last line `3` is no reward");
}

#[tokio::test]
async fn a_rewritten_history_is_another_conversation() {
    let worker = worker(|_| {}).await;
    let mut stream = worker.open().await;
    begin(&mut stream, "a", &task("rewrites")).await;
    let observed = stream.turn(text("a", 1, "b")).await;
    assert!(observed.messages.is_empty() && !observed.done);
    let (conversation, _) = asked(observed.request);
    let messages: Vec<_> = conversation["messages"].as_array().unwrap().iter().map(|m| &m["content"]).collect();
    assert_eq!(messages, ["Be brief.", "a and b", "b", "c"]);
    assert!(stream.turn(text("a", 2, "d")).await.done);
    assert_eq!(stream.scored().await.unwrap().reward, Some(1.0));
}

#[tokio::test]
async fn requests_at_the_same_time_are_answered_one_after_the_other_each_with_its_own_answer() {
    let worker = worker(|_| {}).await;
    let mut stream = worker.open().await;
    let (first, _) = begin(&mut stream, "a", &task("at_once")).await;
    let question = |asked: &Value| format!("to {}", asked["messages"][0]["content"].as_str().unwrap());
    let observed = stream.turn(text("a", 1, &question(&first))).await;
    let (second, _) = asked(observed.request);
    assert_ne!(first, second, "neither goes on with the other");
    assert!(stream.turn(text("a", 2, &question(&second))).await.done);
    assert_eq!(stream.scored().await.unwrap().reward, Some(1.0));
}

#[tokio::test]
async fn what_is_refused_is_no_turn_and_the_agent_goes_on() {
    let worker = worker(|_| {}).await;
    for what in ["badly", "streams"] {
        let mut stream = worker.open().await;
        let (conversation, _) = begin(&mut stream, what, &task(what)).await;
        assert_eq!(conversation["messages"], json!([{"role": "user", "content": "a"}]));
        assert!(stream.turn(text(what, 1, "b")).await.done);
        assert_eq!(stream.scored().await.unwrap().reward, Some(1.0), "{what}");
    }
}

#[tokio::test]
async fn a_client_that_went_away_gets_its_answer_where_it_asks_again() {
    let worker = worker(|_| {}).await;
    let mut stream = worker.open().await;
    begin(&mut stream, "a", &task("impatient")).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(stream.turn(text("a", 1, "b")).await.done, "asking again is no turn");
    assert_eq!(stream.scored().await.unwrap().reward, Some(1.0));
}

#[tokio::test]
async fn an_agent_that_dies_or_says_nothing_or_hangs_has_failed_and_the_model_has_not() {
    let patient = worker(|_| {}).await;
    let impatient = worker(|s| s.step_deadline = Duration::from_secs(5)).await;
    for (what, failure, words) in [
        ("dies", EpisodeFailure::Crashed, "the agent ended with exit status: 5: out of memory"),
        ("mute", EpisodeFailure::Crashed, "the agent ended without having asked the model anything"),
        ("hangs", EpisodeFailure::Timeout, "the first request of the agent took longer than 5s"),
        ("wrong", EpisodeFailure::Crashed, "reward is 7"),
        ("nothing of the kind", EpisodeFailure::Crashed, "KeyError"),
    ] {
        let task = task(what);
        let worker = if what == "hangs" { &impatient } else { &patient };
        let failed = match what {
            "wrong" => {
                let mut stream = worker.open().await;
                begin(&mut stream, what, &task).await;
                assert!(stream.turn(text(what, 1, "b")).await.done);
                stream.failed().await
            }
            _ => fails(worker, what, &task).await,
        };
        assert_eq!((failed.0, failed.1), (failure, true), "{what}: {}", failed.2);
        assert!(failed.2.contains(words), "{what}: {}", failed.2);
    }
}

#[tokio::test]
async fn an_agent_ends_with_all_that_it_has_started_whatever_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    // Long enough for an interpreter to start on a busy machine.
    let patient = worker(|settings| settings.step_deadline = Duration::from_secs(60)).await;
    let impatient = worker(|settings| settings.step_deadline = Duration::from_secs(10)).await;
    for (number, how) in ["ends", "hangs", "cancelled", "gone"].into_iter().enumerate() {
        let worker = if how == "hangs" { &impatient } else { &patient };
        let id = number.to_string();
        let file = folder.path().join(how);
        let row = json!({"do": "leaves", "file": file, "hang": how == "hangs"}).to_string();
        let mut stream = worker.open().await;
        begin(&mut stream, &id, &row).await;
        let left: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let pids: Vec<_> = left["pids"].as_array().unwrap().iter().map(|pid| pid.as_u64().unwrap()).collect();
        assert!(pids.iter().all(|pid| is_running(*pid)), "{how}");
        match how {
            "ends" => {
                assert!(stream.turn(text(&id, 1, "b")).await.done);
                assert_eq!(stream.scored().await.unwrap().reward, Some(1.0));
            }
            "hangs" => {
                stream.send(text(&id, 1, "b")).await;
                let (failure, _, message) = stream.failed().await;
                assert_eq!(failure, EpisodeFailure::Timeout, "{message}");
            }
            "cancelled" => stream.send(close(&id, CloseReason::Cancelled)).await,
            _ => drop(stream),
        }
        until(|| async { !pids.iter().any(|pid| is_running(*pid)) }).await;
        // Whoever asks after the end is told so, and no other episode hears of it.
        let (status, said) =
            post(left["base"].as_str().unwrap(), b"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}").await;
        assert_eq!((status, said.contains("no such episode, or it is over")), (404, true), "{how}: {said}");
    }
}

/// Sends a request as a program of others would.
async fn post(base: &str, body: &[u8]) -> (u16, String) {
    let (host, path) = base.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut socket = TcpStream::connect(host).await.unwrap();
    let length = body.len();
    let head = format!(
        "POST /{path}/chat/completions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n\
        \r\n"
    );
    socket.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
    let mut said = String::new();
    socket.read_to_string(&mut said).await.unwrap();
    (said.split(' ').nth(1).unwrap().parse().unwrap(), said)
}

#[tokio::test]
async fn an_agent_whose_budget_is_used_up_is_answered_with_nothing_and_scored_as_far_as_it_went() {
    let worker = worker(|_| {}).await;
    let mut stream = worker.open().await;
    begin(&mut stream, "a", &task("cut_off")).await;
    let observed = stream.turn(text("a", 1, "b")).await;
    assert_eq!(observed.messages[0].content, "go on");
    stream.send(close("a", CloseReason::Budget)).await;
    assert_eq!(stream.scored().await.unwrap().reward, Some(0.5));

    begin(&mut stream, "b", &task("forever")).await;
    stream.send(close("b", CloseReason::Budget)).await;
    let (failure, _, message) = stream.failed().await;
    assert_eq!(failure, EpisodeFailure::Crashed);
    assert!(message.contains("keeps asking after 16 answers"), "{message}");
}

#[tokio::test]
async fn sixty_four_agents_at_once_have_an_episode_each_and_no_more_are_started() {
    let worker = worker(|settings| {
        settings.max_agents = 64;
        settings.step_deadline = Duration::from_secs(60);
    })
    .await;
    let mut stream = worker.open().await;
    for number in 0..64 {
        let row = json!({"do": "talk", "prompt": format!("{number}?")}).to_string();
        stream.send(open(&number.to_string(), &name(), &row)).await;
    }
    let mut opened = Vec::new();
    while opened.len() < 64 {
        let event = stream.next().await.unwrap();
        let Some(Event::Opened(first)) = event.kind else { panic!("{event:?}") };
        let (conversation, _) = asked(first.request);
        assert_eq!(conversation["messages"][0]["content"], format!("{}?", event.episode_id));
        opened.push(event.episode_id);
    }
    let (failure, retryable, message) = fails(&worker, "another", &task("silent")).await;
    assert_eq!((failure, retryable), (EpisodeFailure::Overloaded, true), "{message}");
    for id in &opened {
        stream.send(text(id, 1, if id.len() == 1 { "3" } else { "4" })).await;
    }
    let mut scored = 0;
    while scored < 64 {
        let event = stream.next().await.unwrap();
        if let Some(Event::Scored(score)) = event.kind {
            let wanted = if event.episode_id.len() == 1 { 1.0 } else { 0.25 };
            assert_eq!(score.verdict.unwrap().reward, Some(wanted), "{}", event.episode_id);
            scored += 1;
        }
    }
}

#[tokio::test]
async fn a_call_that_cannot_be_read_is_text_to_an_agent() {
    let worker = worker(|_| {}).await;
    let mut stream = worker.open().await;
    begin(&mut stream, "a", &json!({"do": "talk", "prompt": "?"}).to_string()).await;
    let broken = ToolCall { id: "c".into(), error: "not valid JSON".into(), ..ToolCall::default() };
    let message = AssistantMessage { tool_calls: vec![broken], text: "3".into(), ..AssistantMessage::default() };
    let Kind::Act(act) = act("a", 1, vec![]) else { panic!() };
    assert!(stream.turn(Kind::Act(Act { message: Some(message), ..act })).await.done);
    assert_eq!(stream.scored().await.unwrap().reward, Some(1.0));
}

#[tokio::test]
async fn a_turn_that_was_cut_off_says_so_to_an_agent() {
    let worker = worker(|_| {}).await;
    let mut stream = worker.open().await;
    begin(&mut stream, "a", &task("cut_off")).await;
    let Kind::Act(act) = text("a", 1, "") else { panic!() };
    assert!(stream.turn(Kind::Act(Act { finish_reason: FinishReason::Length.into(), ..act })).await.done);
    assert_eq!(stream.scored().await.unwrap().reward, Some(0.5));
}

#[tokio::test]
async fn a_program_that_is_missing_or_has_changed_is_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.py");
    let settings = EnvironmentSettings { agents: vec![path.clone()], ..EnvironmentSettings::on("127.0.0.1:0") };
    let error = bind(settings).await.err().unwrap().to_string();
    assert!(error.starts_with("environment.agents is ") && error.contains("allowed: a program"), "{error}");
    std::fs::copy(program(), &path).unwrap();
    let worker = Worker::with(|settings| settings.agents = vec![path.clone()]).await;
    std::fs::write(&path, "print()").unwrap();
    let mut stream = worker.open().await;
    stream.send(open("a", &format!("agent:{}", path.display()), &task("silent"))).await;
    let (failure, retryable, message) = stream.failed().await;
    assert_eq!((failure, retryable), (EpisodeFailure::Crashed, false));
    assert!(message.contains("is not the file that the worker was started with"), "{message}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_agent_has_no_more_memory_than_its_limit() {
    let worker = worker(|settings| settings.max_agent_memory = ByteSize::mib(256)).await;
    let (failure, _, message) = fails(&worker, "a", &task("greedy")).await;
    assert!(failure == EpisodeFailure::Crashed && message.contains("MemoryError"), "{message}");
}
