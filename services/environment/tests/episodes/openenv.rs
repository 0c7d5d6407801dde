//! Environments on OpenEnv servers, played by a server that does what it is told: also what real ones do at the worst
//! time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_environment_service::{EnvironmentSettings, bind};
use evenkeel_proto::v1::{CloseReason, EpisodeFailure, MessageRole};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Worker, act, call, close, open, say, until};
use crate::websocket::ServerSocket;

/// What the server's environment takes.
#[derive(Clone, Copy, PartialEq)]
enum Takes {
    Tools,
    Text,
    Fields,
}

/// A server, and how many sockets are open there.
struct Server {
    address: String,
    open: Arc<AtomicUsize>,
    deadline: Duration,
}

impl Server {
    /// With room for a limited number of sockets.
    async fn start(takes: Takes, room: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("ws://{}", listener.local_addr().unwrap());
        let open = Arc::<AtomicUsize>::default();
        let sockets = Arc::clone(&open);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, takes, room, Arc::clone(&sockets)));
            }
        });
        Self { address, open, deadline: Duration::from_secs(3) }
    }

    fn name(&self) -> String {
        format!("openenv:{}", self.address)
    }

    async fn worker(&self) -> Worker {
        let worker = Worker::with(|settings| {
            settings.openenv = vec![self.address.clone()];
            settings.step_deadline = self.deadline;
            settings.openenv_range = [-1.0, 1.0];
        });
        let worker = worker.await;
        self.is_left_with(0).await;
        worker
    }

    async fn is_left_with(&self, open: usize) {
        until(|| async { self.open.load(Ordering::Acquire) == open }).await;
    }
}

async fn serve(stream: TcpStream, takes: Takes, room: usize, open: Arc<AtomicUsize>) {
    let mut first = [0; 11];
    while stream.peek(&mut first).await.unwrap_or(0) < first.len() {
        tokio::task::yield_now().await;
    }
    if &first == b"GET /schema" {
        return schema(stream, takes).await;
    }
    let Some(mut socket) = ServerSocket::accept(stream).await else { return };
    let is_full = open.fetch_add(1, Ordering::AcqRel) >= room;
    if is_full {
        let full = json!({"type": "error", "data": {"message": "full", "code": "CAPACITY_REACHED"}});
        let _ = socket.send(&full.to_string()).await;
    }
    while let (false, Some(text)) = (is_full, socket.next().await) {
        let request: Value = serde_json::from_str(&text).unwrap();
        for answer in answers(&request, takes).await {
            if socket.send(&answer).await.is_err() {
                break;
            }
        }
    }
    open.fetch_sub(1, Ordering::AcqRel);
}

async fn schema(mut stream: TcpStream, takes: Takes) {
    let mut request = [0; 1024];
    let _ = stream.read(&mut request).await;
    let text = json!({"type": "string"});
    let fields = match takes {
        Takes::Fields => json!({"metadata": {}, "text": text, "times": {"type": "integer"}}),
        _ => json!({"metadata": {}, "text": text}),
    };
    let body = json!({"action": {"properties": fields, "description": "Says it."}}).to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

fn error(code: &str) -> String {
    json!({"type": "error", "data": {"message": "no", "code": code}}).to_string()
}

fn observation(fields: Value, reward: Value, done: bool) -> String {
    json!({"type": "observation", "data": {"observation": fields, "reward": reward, "done": done}}).to_string()
}

async fn answers(request: &Value, takes: Takes) -> Vec<String> {
    let data = &request["data"];
    match request["type"].as_str().unwrap() {
        "close" => return vec![],
        "reset" if data["level"] == 9 => return vec![error("EXECUTION_ERROR")],
        "reset" => return vec![observation(json!({"text": format!("level {}", data["level"])}), Value::Null, false)],
        _ => {}
    }
    if data["type"] == "list_tools" {
        let echo = json!({"name": "echo", "description": "Says it.", "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}}});
        return match takes {
            Takes::Tools => vec![observation(json!({"tools": [echo]}), Value::Null, false)],
            _ => vec![error("VALIDATION_ERROR")],
        };
    }
    let text = data["text"].as_str().or(data["arguments"]["text"].as_str()).unwrap_or_default();
    let seen = |content: &str| match takes {
        Takes::Tools => {
            json!({"tool_name": "echo", "result": {"content": [{"type": "text", "text": content}]}, "error": null})
        }
        _ => json!({"text": content}),
    };
    let plain = observation(seen(text), Value::Null, false);
    match text {
        "late" => {
            tokio::time::sleep(Duration::from_secs(9)).await;
            vec![plain]
        }
        "twice" => vec![plain.clone(), plain],
        "state" => vec![json!({"type": "state", "data": {}}).to_string()],
        "broken" => vec!["{\"type\"".to_owned()],
        "none" => vec![observation(Value::Null, Value::Null, false)],
        "big" => vec![observation(seen(&"ab".repeat(5 << 20)), Value::Null, false)],
        "good" => vec![observation(seen("well done"), json!(0.75), false)],
        "bad" => vec![observation(seen("not so well"), json!(-0.25), false)],
        "vast" => vec![observation(seen("very much"), json!(1e308), false)],
        "rich" => vec![observation(seen("too much"), json!(7), true)],
        "end" => vec![observation(seen("over"), Value::Null, true)],
        code if code.ends_with("ERROR") || code.ends_with("TYPE") || code.ends_with("REACHED") => vec![error(code)],
        _ => vec![plain],
    }
}

fn echo(id: &str, turn: u32, texts: &[&str]) -> evenkeel_proto::v1::environment_request::Kind {
    act(id, turn, texts.iter().map(|text| call(turn, "echo", &json!({"text": text}).to_string())).collect())
}

#[tokio::test]
async fn calls_of_tools_are_steps_and_rewards_add_up() {
    let server = Server::start(Takes::Tools, 9).await;
    let worker = server.worker().await;
    let info = worker.status().await.environments.into_iter().find(|info| info.name == server.name()).unwrap();
    assert_eq!((info.tools[0].name.as_str(), info.user_speaks, info.digest.len()), ("echo", false, 71));
    let mut stream = worker.open().await;
    stream.begin("a", &server.name(), "{}").await;
    let observed = stream.turn(echo("a", 1, &["hi", "VALIDATION_ERROR", "good"])).await;
    let texts: Vec<_> = observed.messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!((texts, observed.tool_errors), (vec!["hi", "error: no", "well done"], 1));
    assert_eq!(observed.reward, Some(0.75), "as the server gave it");
    assert_eq!(stream.turn(echo("a", 2, &["bad", "good", "bad"])).await.reward, Some(0.25));
    assert_eq!(stream.turn(echo("a", 3, &["bad", "bad"])).await.reward, Some(-0.5));
    let last = stream.turn(say("a", 4, "I am done.")).await;
    assert_eq!((last.done, last.reward), (true, None));
    // From -1 to 1.
    assert_eq!(stream.scored().await.unwrap().reward, Some(0.75));
    stream.begin("b", &server.name(), "{}").await;
    let observed = stream.turn(echo("b", 1, &["end", "more"])).await;
    assert_eq!((observed.messages[1].content.as_str(), observed.done), ("error: the episode is over", true));
    assert_eq!(stream.scored().await, None, "no reward is no 0");
    stream.begin("c", &server.name(), "{}").await;
    assert!(stream.turn(echo("c", 1, &["rich"])).await.done);
    assert!(stream.failed().await.2.contains("the rewards of the episode are 7 together, allowed: -1 to 1"));
    stream.begin("d", &server.name(), "{}").await;
    stream.send(echo("d", 1, &["vast", "vast"])).await;
    assert!(stream.failed().await.2.contains("the reward of turn 1 is inf, allowed: a finite number"));
    server.is_left_with(0).await;
}

#[tokio::test]
async fn a_turn_is_an_action_where_actions_are_texts_and_the_first_observation_is_not_lost() {
    let server = Server::start(Takes::Text, 9).await;
    let worker = server.worker().await;
    let mut stream = worker.open().await;
    stream.begin("a", &server.name(), r#"{"reset": {"level": 3}}"#).await;
    let observed = stream.turn(say("a", 1, "hello")).await;
    assert_eq!(
        (observed.messages[0].content.as_str(), observed.messages[0].role()),
        ("level 3\nhello", MessageRole::User)
    );
    assert_eq!(stream.turn(say("a", 2, "again")).await.messages[0].content, "again");
    stream.send(close("a", CloseReason::Budget)).await;
    assert_eq!(stream.scored().await, None);
    stream.send(open("b", &server.name(), r#"{"reset": {"level": 9}}"#)).await;
    assert_eq!(stream.failed().await.0, EpisodeFailure::Crashed);
    stream.send(open("c", &server.name(), r#"{"reset": 3}"#)).await;
    assert_eq!(stream.failed().await.0, EpisodeFailure::TaskInvalid);
    server.is_left_with(0).await;
}

#[tokio::test]
async fn an_action_with_several_fields_is_a_call_of_one_tool() {
    let server = Server::start(Takes::Fields, 9).await;
    let worker = server.worker().await;
    let mut stream = worker.open().await;
    stream.begin("a", &server.name(), "{}").await;
    assert!(stream.turn(say("a", 1, "hello")).await.messages[0].content.ends_with("Call the tool `act`."));
    let observed = stream.turn(act("a", 2, vec![call(2, "act", r#"{"text": "hi", "times": 2}"#)])).await;
    assert_eq!((observed.messages[0].content.as_str(), observed.messages[0].role()), ("hi", MessageRole::Tool));
}

#[tokio::test]
async fn whatever_comes_late_or_at_the_wrong_time_ends_the_socket_and_no_answer_is_taken_for_another() {
    let server = Server::start(Takes::Tools, 99).await;
    let worker = server.worker().await;
    let mut stream = worker.open().await;
    for (text, failure, words) in [
        ("late", EpisodeFailure::Timeout, "the step took longer than 3s"),
        ("state", EpisodeFailure::Crashed, "an answer of the kind `state`"),
        ("broken", EpisodeFailure::Crashed, "no valid JSON"),
        ("none", EpisodeFailure::Crashed, "not an object"),
        ("EXECUTION_ERROR", EpisodeFailure::Crashed, "EXECUTION_ERROR: no"),
        ("SESSION_ERROR", EpisodeFailure::Crashed, "SESSION_ERROR"),
        ("FACTORY_ERROR", EpisodeFailure::Crashed, "FACTORY_ERROR"),
        ("CAPACITY_REACHED", EpisodeFailure::Overloaded, "CAPACITY_REACHED"),
        ("UNKNOWN_TYPE", EpisodeFailure::Internal, "UNKNOWN_TYPE"),
    ] {
        stream.begin(text, &server.name(), "{}").await;
        stream.send(echo(text, 1, &[text])).await;
        let (found, retryable, message) = stream.failed().await;
        assert_eq!((found, retryable), (failure, true), "{message}");
        assert!(message.contains(words), "{message}");
    }
    stream.begin("twice", &server.name(), "{}").await;
    assert_eq!(stream.turn(echo("twice", 1, &["twice"])).await.messages[0].content, "twice");
    tokio::time::sleep(Duration::from_millis(200)).await;
    stream.send(echo("twice", 2, &["next"])).await;
    assert_eq!(stream.failed().await.0, EpisodeFailure::Crashed, "the second answer is not that of the next turn");
    stream.begin("big", &server.name(), "{}").await;
    let big = stream.turn(echo("big", 1, &["big"])).await.messages.remove(0).content;
    assert!(big.len() < (1 << 20) + 100 && big.ends_with("of 10485760 bytes]"), "{} bytes", big.len());
    stream.send(close("big", CloseReason::Cancelled)).await;
    server.is_left_with(0).await;
}

#[tokio::test]
async fn a_server_with_room_for_one_is_full_and_has_room_when_that_one_is_over() {
    let server = Server::start(Takes::Tools, 1).await;
    let worker = server.worker().await;
    let mut stream = worker.open().await;
    stream.begin("a", &server.name(), "{}").await;
    for _ in 0..3 {
        stream.send(open("b", &server.name(), "{}")).await;
        let (failure, retryable, message) = stream.failed().await;
        assert_eq!((failure, retryable), (EpisodeFailure::Overloaded, true), "{message}");
    }
    stream.send(close("a", CloseReason::Cancelled)).await;
    server.is_left_with(0).await;
    stream.begin("b", &server.name(), "{}").await;
    // A server that is gone: the episode is lost with it, and the worker is not.
    stream.send(close("b", CloseReason::Budget)).await;
    assert_eq!(stream.scored().await, None);
}

#[tokio::test]
async fn five_hundred_and_twelve_sockets_open_at_once_and_close_with_the_client() {
    let server = Server { deadline: Duration::from_secs(60), ..Server::start(Takes::Tools, 600).await };
    let worker = server.worker().await;
    let mut stream = worker.open().await;
    for number in 0..512 {
        stream.send(open(&number.to_string(), &server.name(), "{}")).await;
    }
    let mut opened = 0;
    for _ in 0..512 {
        opened += usize::from(matches!(stream.kind().await, evenkeel_proto::v1::environment_event::Kind::Opened(_)));
    }
    assert_eq!((opened, server.open.load(Ordering::Acquire)), (512, 512));
    drop(stream);
    server.is_left_with(0).await;
    assert_eq!(worker.status().await.episodes["closed"], 512);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_asked_again_since_it_may_be_about_to_start() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("ws://{}", listener.local_addr().unwrap());
    let asked = Arc::<AtomicUsize>::default();
    let counted = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::AcqRel);
            if counter.load(Ordering::Acquire) < 3 {
                continue;
            }
            tokio::spawn(serve(stream, Takes::Tools, 9, Arc::clone(&counted)));
        }
    });
    let settings = EnvironmentSettings { openenv: vec![address], ..EnvironmentSettings::on("127.0.0.1:0") };
    assert!(bind(settings).await.is_ok());
    assert_eq!(asked.load(Ordering::Acquire), 3);
}
