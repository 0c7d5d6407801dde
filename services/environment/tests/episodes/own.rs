//! Environments in Python files of the user's own: what they do is no failure of the model, and ends no other process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_environment_service::{EnvironmentSettings, bind};
use evenkeel_proto::v1::environment_event::Kind as Event;
use evenkeel_proto::v1::environment_request::Kind;
use evenkeel_proto::v1::{CloseReason, EpisodeFailure, MessageRole};

use crate::support::{Stream, Worker, act, call, close, open, say, until};

/// Does what the text of a turn says.
const ODD: &str = r#"
import os, sys, time
from evenkeel_environment import Environment, TaskError, tool

class Odd(Environment):
    def reset(self, task, seed):
        if task.get("refuse"):
            raise TaskError("no such level")
        if task.get("die"):
            os._exit(5)
        if task.get("hang"):
            time.sleep(1000)
        if task.get("first"):
            return task["first"], {}
        self.result, self.seed = task.get("result"), seed
        return task.get("says")

    @tool
    def add(self, a: int, b: int = 1) -> int:
        "Adds."
        print("noise that is no answer")
        return a + b

    def step(self, action):
        if action.calls:
            return super().step(action)
        if action == "loop":
            while True:
                pass
        if action == "raise":
            raise RuntimeError("the shelf fell down")
        if action == "exit":
            print("out of shelves", file=sys.stderr, flush=True)
            os._exit(3)
        if action == "silent":
            return []
        if action == "long":
            return "é" * (10 << 20)
        if action == "scripts":
            return "Ελληνικά 中文 العربية हिन्दी 🦊 \ud83d half \x00 </tool_response>"
        if action == "number":
            return {"left": 3}
        return "over", True

    def score(self):
        return eval(self.result) if isinstance(self.result, str) else self.result
"#;

/// A Python file with an environment.
pub(crate) struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl File {
    pub(crate) fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("odd.py");
        std::fs::write(&path, text).unwrap();
        Self { _folder: folder, path }
    }

    pub(crate) fn name(&self) -> String {
        self.path.to_str().unwrap().to_owned()
    }

    pub(crate) async fn worker(&self, change: impl FnOnce(&mut EnvironmentSettings)) -> Worker {
        Worker::with(|settings| {
            settings.files = vec![self.path.clone()];
            settings.processes = 1;
            settings.step_deadline = Duration::from_secs(3);
            change(settings);
        })
        .await
    }
}

pub(crate) async fn refused(text: &str) -> String {
    let file = File::new(text);
    let settings = EnvironmentSettings { files: vec![file.path.clone()], ..EnvironmentSettings::on("127.0.0.1:0") };
    bind(settings).await.err().unwrap().to_string()
}

#[tokio::test]
async fn the_example_is_played_from_its_first_guess_to_its_score() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mastermind.py");
    let name = path.to_str().unwrap().to_owned();
    let worker = Worker::with(|settings| settings.files = vec![path]).await;
    let info = worker.status().await.environments.into_iter().find(|info| info.name == name).unwrap();
    assert_eq!((info.tools.len(), info.user_speaks, info.digest.len()), (1, true, 71));
    assert!(info.tools[0].parameters.contains("\"required\":[\"code\"]"), "{:?}", info.tools);
    let mut stream = worker.open().await;
    stream.begin("a", &name, r#"{"answer": "264"}"#).await;
    let guesses = ["{\"code\": \"246\"}", "{\"code\": 246}", "{\"kode\": \"2\"}", "{"];
    let calls = guesses.into_iter().map(|arguments| call(1, "guess", arguments)).collect();
    let observed = stream.turn(act("a", 1, calls)).await;
    let texts: Vec<_> = observed.messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(texts[..2], ["1 in place, 2 elsewhere", "error: `code` is 246, allowed: of type string"]);
    assert!(texts[2].contains("missing a required argument: 'code'") && texts[3].contains("not valid JSON"));
    assert_eq!((observed.tool_errors, observed.done), (3, false));
    let spoken = stream.turn(say("a", 2, "Is it 264?")).await;
    assert_eq!(spoken.messages[0].role(), MessageRole::User);
    assert!(stream.turn(act("a", 3, vec![call(3, "guess", "{\"code\": \"264\"}")])).await.done);
    let verdict = stream.scored().await.unwrap();
    assert_eq!((verdict.reward, verdict.components["in_place"]), (Some(1.0), 1.0));
    stream.begin("b", &name, r#"{"answer": "264"}"#).await;
    stream.send(close("b", CloseReason::Budget)).await;
    assert_eq!(stream.scored().await.unwrap().reward, Some(0.0));
    stream.send(open("c", &name, r#"{"answer": "9"}"#)).await;
    let (failure, retryable, message) = stream.failed().await;
    assert_eq!((failure, retryable), (EpisodeFailure::TaskInvalid, false));
    assert!(message.contains("`answer` is '9', allowed: digits from 1 to 6 (line "), "{message}");
}

/// Plays a turn that ends an episode without a result.
async fn fails(stream: &mut Stream, file: &File, text: &str) -> (EpisodeFailure, bool, String) {
    stream.begin(text, &file.name(), "{}").await;
    stream.send(say(text, 1, text)).await;
    stream.failed().await
}

#[tokio::test]
async fn a_file_that_raises_or_exits_or_says_nothing_has_failed_and_the_next_episode_is_played() {
    let file = File::new(ODD);
    let worker = file.worker(|_| {}).await;
    let mut stream = worker.open().await;
    for (text, words) in [
        ("raise", "RuntimeError: the shelf fell down (line "),
        ("exit", "ended with exit status: 3: noise that is no answer | out of shelves"),
        ("silent", "step gave no observation"),
    ] {
        if text == "exit" {
            stream.begin("noisy", &file.name(), "{}").await;
            stream.turn(act("noisy", 1, vec![call(1, "add", "{\"a\": 1}")])).await;
        }
        let (failure, retryable, message) = fails(&mut stream, &file, text).await;
        assert_eq!((failure, retryable), (EpisodeFailure::Crashed, true), "{text}: {message}");
        assert!(message.contains(words), "{text}: {message}");
        let traceback = message.split_once('\n').map(|(_, traceback)| traceback);
        assert_eq!(traceback.is_some(), text == "raise", "only an exception of the file has a traceback: {message}");
        if let Some(traceback) = traceback {
            assert!(traceback.starts_with("Traceback (most recent call last):\n  File \""), "{traceback}");
            assert!(traceback.ends_with("RuntimeError: the shelf fell down"), "{traceback}");
        }
    }
    stream.begin("good", &file.name(), r#"{"result": null}"#).await;
    let observed =
        stream.turn(act("good", 1, vec![call(1, "add", "{\"a\": 2}"), call(1, "add", "{\"a\": 2, \"b\": 5}")])).await;
    assert_eq!([&observed.messages[0].content, &observed.messages[1].content], ["3", "7"]);
    assert!(stream.turn(say("good", 2, "end")).await.done);
    assert_eq!(stream.scored().await, None, "the verifier of the task judges");
    assert_eq!(worker.status().await.episodes["crashed"], 3);
}

#[tokio::test]
async fn a_busy_loop_is_ended_with_its_process_and_the_others_there_are_lost_with_it() {
    let file = File::new(ODD);
    let worker = file.worker(|settings| settings.step_deadline = Duration::from_millis(800)).await;
    let mut stream = worker.open().await;
    stream.begin("bystander", &file.name(), "{}").await;
    let (failure, retryable, message) = fails(&mut stream, &file, "loop").await;
    assert_eq!((failure, retryable), (EpisodeFailure::Timeout, true));
    assert_eq!(message, "the step took longer than 800ms");
    stream.send(say("bystander", 1, "end")).await;
    let (failure, _, message) = stream.failed().await;
    assert_eq!(failure, EpisodeFailure::Crashed);
    assert!(message.contains("an episode of its process took longer than 800ms"), "{message}");
    stream.begin("next", &file.name(), "{}").await;
    assert!(stream.turn(say("next", 1, "end")).await.done);
}

#[tokio::test]
async fn an_episode_that_is_cancelled_in_a_busy_loop_does_not_hold_up_its_process_for_ever() {
    let file = File::new(ODD);
    let worker = file.worker(|settings| settings.step_deadline = Duration::from_millis(800)).await;
    let mut stream = worker.open().await;
    stream.begin("a", &file.name(), "{}").await;
    stream.send(say("a", 1, "loop")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    stream.send(close("a", CloseReason::Cancelled)).await;
    until(|| async { worker.status().await.open_episodes == 0 }).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    stream.begin("b", &file.name(), "{}").await;
    assert!(stream.turn(say("b", 1, "end")).await.done);
}

#[tokio::test]
async fn observations_of_any_length_and_script_arrive_as_text() {
    let file = File::new(ODD);
    let worker = file.worker(|settings| settings.step_deadline = Duration::from_secs(30)).await;
    let mut stream = worker.open().await;
    stream.begin("a", &file.name(), "{}").await;
    let long = stream.turn(say("a", 1, "long")).await.messages.remove(0).content;
    assert!(long.len() <= (1 << 20) + 200 && long.contains("[cut off: "), "{} bytes", long.len());
    let scripts = stream.turn(say("a", 2, "scripts")).await.messages.remove(0).content;
    assert_eq!(scripts, "Ελληνικά 中文 العربية हिन्दी 🦊 ? half \u{0} </tool_response>");
    assert_eq!(stream.turn(say("a", 3, "number")).await.messages[0].content, "{\"left\": 3}");
}

#[tokio::test]
async fn a_score_that_is_none_is_never_a_zero() {
    let file = File::new(ODD);
    let worker = file.worker(|_| {}).await;
    let mut stream = worker.open().await;
    for (result, words) in [
        ("\"float('nan')\"", "score gave nan, allowed: 0 to 1"),
        ("1.5", "score gave 1.5"),
        ("\"[1][5]\"", "IndexError"),
        ("{\"part\": 1}", "without `reward`"),
        ("{\"reward\": 1, \"correctness\": 1}", "score: "),
        ("[1]", "TypeError"),
        ("\"os._exit(6)\"", "ended with exit status: 6"),
    ] {
        stream.begin("a", &file.name(), &format!("{{\"result\": {result}}}")).await;
        assert!(stream.turn(say("a", 1, "end")).await.done);
        let (failure, _, message) = stream.failed().await;
        assert!(failure == EpisodeFailure::Crashed && message.contains(words), "{result}: {message}");
    }
    for (result, reward) in [("0", 0.0), ("true", 1.0), ("{\"reward\": 0.25, \"part\": -1}", 0.25)] {
        stream.begin("a", &file.name(), &format!("{{\"result\": {result}}}")).await;
        assert!(stream.turn(say("a", 1, "end")).await.done);
        assert_eq!(stream.scored().await.unwrap().reward, Some(reward), "{result}");
    }
}

/// Earns what the texts and calls of a turn say, and is worth what the task says.
const EARNS: &str = r#"
from evenkeel_environment import Environment, ToolError, tool

class Earns(Environment):
    def reset(self, task, seed):
        self.worth, self.at_the_end = task.get("worth"), task.get("at_the_end")
        if task.get("at_once"):
            self.earn(1)

    @tool
    def take(self, share: float) -> str:
        "Takes a share."
        self.earn(share)
        if share < 0:
            raise ToolError("given back")
        return "taken"

    def step(self, action):
        if action.calls:
            return super().step(action)
        if action == "end":
            self.earn(0.5)
            self.done = True
        elif action != "nothing":
            self.earn(eval(action))
        return "so it is"

    def score(self):
        if self.at_the_end:
            self.earn(1)
        return self.worth
"#;

fn take(id: &str, turn: u32, shares: &[&str]) -> Kind {
    act(id, turn, shares.iter().map(|share| call(turn, "take", &format!("{{\"share\": {share}}}"))).collect())
}

#[tokio::test]
async fn what_turns_earn_is_reported_with_each_and_adds_up_to_the_reward_of_the_episode() {
    let file = File::new(EARNS);
    let worker = file.worker(|_| {}).await;
    let mut stream = worker.open().await;
    stream.begin("a", &file.name(), "{}").await;
    let calls = || take("a", 1, &["0.5", "-0.25", "\"all\""]);
    let observed = stream.turn(calls()).await;
    assert_eq!((observed.reward, observed.tool_errors), (Some(0.25), 2), "calls of a turn add up");
    assert_eq!(stream.turn(calls()).await, observed, "the same turn again earns nothing more");
    assert_eq!(stream.turn(say("a", 2, "nothing")).await.reward, None);
    assert_eq!(stream.turn(say("a", 3, "0")).await.reward, Some(0.0));
    let last = stream.turn(say("a", 4, "end")).await;
    assert_eq!((last.reward, last.done), (Some(0.5), true));
    assert_eq!(stream.scored().await.unwrap().reward, Some(0.75));
    stream.begin("budget", &file.name(), "{}").await;
    stream.turn(say("budget", 1, "0.125")).await;
    stream.send(close("budget", CloseReason::Budget)).await;
    assert_eq!(stream.scored().await.unwrap().reward, Some(0.125), "as far as it went");
    stream.begin("none", &file.name(), "{}").await;
    stream.turn(say("none", 1, "nothing")).await;
    stream.send(close("none", CloseReason::Budget)).await;
    assert_eq!(stream.scored().await, None, "no reward is no 0");
    stream.begin("scored", &file.name(), r#"{"worth": 0.25}"#).await;
    assert_eq!(stream.turn(say("scored", 1, "7")).await.reward, Some(7.0), "where there is a score they have no range");
    assert!(stream.turn(say("scored", 2, "end")).await.done);
    assert_eq!(stream.scored().await.unwrap().reward, Some(0.25), "what the file says of the whole episode counts");
}

#[tokio::test]
async fn a_reward_of_a_turn_that_is_none_and_a_sum_out_of_range_are_failures() {
    let file = File::new(EARNS);
    let worker = file.worker(|_| {}).await;
    let mut stream = worker.open().await;
    for (said, words) in [
        ("float('nan')", "earn got nan, allowed: a finite number (line 25)"),
        ("-float('inf')", "earn got -inf"),
        ("'1'", "earn got '1'"),
        ("None", "earn got None"),
        ("[1.0]", "earn got [1.0]"),
        ("10 ** 400", "earn got 1000000"),
    ] {
        let (failure, retryable, message) = fails(&mut stream, &file, said).await;
        assert_eq!((failure, retryable), (EpisodeFailure::Crashed, true), "{said}: {message}");
        assert!(message.contains(words), "{said}: {message}");
    }
    for (said, words) in [("0.75", "are 1.25 together, allowed: 0 to 1"), ("-2", "are -1.5 together")] {
        stream.begin(said, &file.name(), "{}").await;
        stream.turn(say(said, 1, said)).await;
        assert!(stream.turn(say(said, 2, "end")).await.done);
        let (failure, retryable, message) = stream.failed().await;
        assert_eq!((failure, retryable), (EpisodeFailure::Crashed, false), "{said}: {message}");
        assert!(message.contains(words), "{said}: {message}");
    }
    stream.begin("late", &file.name(), r#"{"at_the_end": 1}"#).await;
    assert!(stream.turn(say("late", 1, "end")).await.done);
    assert!(stream.failed().await.2.contains("score called earn, allowed: in step and in tools"));
    stream.send(open("early", &file.name(), r#"{"at_once": 1}"#)).await;
    assert!(stream.failed().await.2.contains("reset called earn"));
}

#[tokio::test]
async fn more_episodes_than_the_processes_take_are_refused_and_hundreds_open_at_once() {
    let file = File::new(ODD);
    let worker = file.worker(|settings| settings.episodes_per_process = 1).await;
    let mut stream = worker.open().await;
    stream.begin("a", &file.name(), "{}").await;
    stream.send(open("b", &file.name(), "{}")).await;
    let (failure, _, message) = stream.failed().await;
    assert_eq!(failure, EpisodeFailure::Overloaded);
    assert!(message.contains("(processes, episodes_per_process)"), "{message}");
    let worker = file.worker(|settings| {
        (settings.processes, settings.episodes_per_process) = (2, 256);
        settings.step_deadline = Duration::from_secs(30);
    });
    let worker = worker.await;
    let mut stream = worker.open().await;
    for number in 0..512 {
        stream.send(open(&number.to_string(), &file.name(), "{}")).await;
    }
    for _ in 0..512 {
        assert!(matches!(stream.kind().await, Event::Opened(_)));
    }
    drop(stream);
    until(|| async { worker.status().await.open_episodes == 0 }).await;
}

#[tokio::test]
async fn a_file_that_changes_under_a_worker_is_not_played() {
    let file = File::new(ODD);
    let worker = file.worker(|_| {}).await;
    let mut stream = worker.open().await;
    std::fs::write(&file.path, ODD.replace("Adds.", "Adds up.")).unwrap();
    // What is loaded stays as it was.
    fails(&mut stream, &file, "exit").await;
    stream.send(open("next", &file.name(), "{}")).await;
    let (failure, retryable, message) = stream.failed().await;
    assert_eq!((failure, retryable), (EpisodeFailure::Crashed, false));
    assert!(message.ends_with("is not the file that the worker was started with"), "{message}");
}

#[tokio::test]
async fn a_file_without_an_environment_is_refused_before_anything_is_served() {
    const HEAD: &str = "from evenkeel_environment import Environment, tool\n";
    for (text, words) in [
        ("", "it has 0 subclasses of Environment (none), allowed: one"),
        ("class A(Environment): pass\nclass B(Environment): pass", "it has 2 subclasses of Environment (A, B)"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module' (line 2)"),
        ("class A(Environment)", "(odd.py, line 2)"),
        ("class A(Environment):\n    @tool\n    def f(self): pass", "the tool f has no documentation"),
        ("class A(Environment):\n    @tool\n    def f(self, *all):\n        'Does.'", "allowed: parameters with names"),
        ("import os\nos._exit(4)", "ended with exit status: 4"),
    ] {
        let error = refused(&format!("{HEAD}{text}")).await;
        assert!(error.starts_with("environment.files: ") && error.contains(words), "{error}");
    }
    let settings = EnvironmentSettings { files: vec!["no/such.py".into()], ..EnvironmentSettings::on("127.0.0.1:0") };
    let error = bind(settings).await.err().unwrap().to_string();
    assert_eq!(error, "environment.files is no/such.py, allowed: a Python file with an environment");
}

#[tokio::test]
async fn messages_of_the_user_are_a_first_observation_as_a_text_is() {
    let file = File::new(ODD);
    let worker = file.worker(|_| {}).await;
    let mut stream = worker.open().await;
    let user = |text: &str| format!("{{\"role\": \"user\", \"content\": \"{text}\"}}");
    for (says, expected) in [
        ("\"the board\"".to_owned(), vec!["the board"]),
        (user("the board"), vec!["the board"]),
        (format!("[{}, {}]", user("the board"), user("your move")), vec!["the board", "your move"]),
        ("[]".to_owned(), vec!["[]"]),
        ("[[0, 1]]".to_owned(), vec!["[[0, 1]]"]),
    ] {
        stream.send(open("a", &file.name(), &format!("{{\"says\": {says}}}"))).await;
        let Event::Opened(opened) = stream.kind().await else { panic!("it opens") };
        let said: Vec<_> = opened.messages.iter().map(|message| message.content.as_str()).collect();
        assert_eq!(said, expected, "{says}");
        assert!(stream.turn(say("a", 1, "end")).await.done);
        stream.scored().await;
    }
}

#[tokio::test]
async fn a_process_that_dies_or_hangs_while_it_opens_an_episode_has_failed_and_is_started_again() {
    let file = File::new(ODD);
    let worker = file.worker(|settings| settings.step_deadline = Duration::from_millis(800)).await;
    let mut stream = worker.open().await;
    for (task, failure, words) in [
        ("{\"die\": 1}", EpisodeFailure::Crashed, "ended with exit status: 5"),
        ("{\"hang\": 1}", EpisodeFailure::Timeout, "took longer than 800ms"),
        ("{\"first\": 1}", EpisodeFailure::Crashed, "reset gave a tuple of 2, allowed: a text"),
        (
            "{\"says\": {\"role\": \"system\", \"content\": \"a\"}}",
            EpisodeFailure::Crashed,
            "a message of the role 'system'",
        ),
        (
            "{\"says\": [{\"role\": \"user\", \"content\": \"a\"}, 1]}",
            EpisodeFailure::Crashed,
            "a list of messages with a int in it",
        ),
        ("{\"refuse\": 1}", EpisodeFailure::TaskInvalid, "no such level"),
        ("[", EpisodeFailure::TaskInvalid, "not JSON"),
    ] {
        stream.send(open("a", &file.name(), task)).await;
        let (found, _, message) = stream.failed().await;
        assert!(found == failure && message.contains(words), "{task}: {message}");
    }
    stream.begin("b", &file.name(), "{}").await;
    assert!(stream.turn(say("b", 1, "end")).await.done);
    assert_eq!(stream.scored().await, None);
    assert_eq!(worker.status().await.open_episodes, 0);
}
