//! Calls to a judge overlap with sampling: an engine keeps one answer back until all others have their verdicts.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use evenkeel_testkit::chat_server::{ChatAnswer, ChatServer};
use serde_json::Value;

use crate::judge_desk::Desk;
use crate::plain_http::Request;
use crate::support::{Process, evenkeel, free_ports, small, succeed, wait_for, written_model};

/// Prompts and answers to each in the only step.
const STEP: [&str; 2] = ["sampling.prompts_per_step=2", "sampling.group_size=4"];
const SAMPLES: usize = 8;
/// How long the engine keeps an answer back where no verdict comes.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// The engine gives an answer.
    Sampled,
    /// The judge gives a verdict.
    Judged,
}

/// What happened, in order.
#[derive(Default)]
struct Order {
    events: Mutex<Vec<Event>>,
    changed: Condvar,
    keeps_one: AtomicBool,
}

impl Order {
    fn note(&self, event: Event) {
        self.events.lock().unwrap().push(event);
        self.changed.notify_all();
    }

    /// Waits for the verdicts on all other answers.
    fn wait_for_the_others(&self) {
        let are_missing =
            |events: &mut Vec<Event>| events.iter().filter(|event| **event == Event::Judged).count() < SAMPLES - 1;
        drop(self.changed.wait_timeout_while(self.events.lock().unwrap(), LIMIT, are_missing).unwrap());
    }
}

fn pass_on(mut client: &TcpStream, engine: u16, order: &Order) -> Option<()> {
    let request = Request::read(client)?;
    let answer = request.forward(engine)?;
    // A proof asks about several texts at once.
    let is_sample = |body: Value| body["prompt"][0].is_number() && body["cache_salt"] != "probe";
    if request.path() == "/v1/completions" && request.json().is_some_and(is_sample) {
        if !order.keeps_one.swap(true, Ordering::SeqCst) {
            order.wait_for_the_others();
        }
        order.note(Event::Sampled);
    }
    client.write_all(&answer).ok()
}

/// Stands between the run and an engine until the test ends; returns the URL.
fn keep_one_back(engine: u16, order: &Arc<Order>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let order = Arc::clone(order);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let order = Arc::clone(&order);
            std::thread::spawn(move || pass_on(&client, engine, &order));
        }
    });
    url
}

#[test]
fn answers_are_judged_while_others_are_sampled_and_the_step_waits_for_the_last_verdict_alone() {
    let order = Arc::new(Order::default());
    let of_judge = Arc::clone(&order);
    let server = ChatServer::start(move |number, _| {
        std::thread::sleep(Duration::from_millis(50));
        of_judge.note(Event::Judged);
        ChatAnswer::of(&format!(r#"{{"long": {}, "rude": 0}}"#, (number % 2) as f64))
    });
    let desk = Desk::new(&server.url);
    let model = written_model(desk.folder.path());
    let [port] = free_ports();
    let mut engine = evenkeel(&["serve", "engine", "--recipe"]);
    engine.arg(small()).args(["--set", &format!("listen=127.0.0.1:{port}")]);
    engine.args(["--set", &format!("model={}", model.display())]);
    let _engine = Process::start(engine);
    wait_for("the engine", || TcpStream::connect(("127.0.0.1", port)).is_ok());

    let path = format!("model.path={}", model.display());
    let between = format!("generation.endpoints=[\"{}\"]", keep_one_back(port, &order));
    succeed(desk.train("run", &["run.steps=1", STEP[0], STEP[1], &path, &between]));
    let step = std::fs::read_to_string(desk.path("run").join("metrics.jsonl")).unwrap();
    let step: Value = serde_json::from_str(step.lines().next().unwrap()).unwrap();
    let counts = ["rollout/samples", "rollout/invalid_samples"].map(|name| step[name].as_f64().unwrap());
    assert_eq!(counts, [SAMPLES as f64, 0.0], "the step has all verdicts");
    let events = order.events.lock().unwrap();
    let (before, last) = events.split_at(2 * SAMPLES - 2);
    assert_eq!(last, [Event::Sampled, Event::Judged], "{events:?}");
    assert_eq!(before.iter().filter(|event| **event == Event::Judged).count(), SAMPLES - 1, "{events:?}");
}
