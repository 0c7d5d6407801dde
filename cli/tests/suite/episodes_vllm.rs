//! Episodes with several turns and a real vLLM: what it read before every turn is what the run sent.
#![allow(clippy::print_stdout, reason = "a test prints what it measured")]

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use evenkeel_run::read_rollouts;
use serde_json::Value;

use crate::episodes::recipe;
use crate::plain_http::Request;
use crate::real_vllm::Vllm;
use crate::support::{succeed, train_recipe};

/// Largest mean difference of a log-probability over the tokens of a step, both sides in f32.
const MEAN: f64 = 1e-4;
const STEPS: u64 = 4;

/// The tokens that a request sends, and those that the engine says it has read.
type Prompts = Vec<(Vec<u64>, Option<Vec<u64>>)>;

/// Between the service and vLLM: notes the prompts on both sides.
struct Listener {
    address: SocketAddr,
    prompts: Arc<Mutex<Prompts>>,
}

impl Listener {
    fn before(engine: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let prompts: Arc<Mutex<Prompts>> = Arc::default();
        let noted = Arc::clone(&prompts);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let noted = Arc::clone(&noted);
                std::thread::spawn(move || pass_on(&client, engine, &noted));
            }
        });
        Self { address, prompts }
    }
}

fn pass_on(mut client: &TcpStream, engine: u16, noted: &Mutex<Prompts>) -> Option<()> {
    let request = Request::read(client)?;
    let answer = request.forward(engine)?;
    // A proof asks about several texts at once.
    let prompt = request.json().and_then(|mut body| serde_json::from_value::<Vec<u64>>(body["prompt"].take()).ok());
    if let Some(sent) = prompt {
        noted.lock().unwrap().push((sent, echoed(&String::from_utf8_lossy(&answer))));
    }
    client.write_all(&answer).ok()
}

/// The prompt in an answer, which may be a stream.
fn echoed(answer: &str) -> Option<Vec<u64>> {
    let (_, ids) = answer.split_once("\"prompt_token_ids\":")?;
    serde_json::from_str(ids.split_inclusive(']').next()?).ok()
}

/// ```text
/// VLLM=ENV/bin/vllm cargo test --release --workspace --test suite episodes_and_a_real_vllm -- --ignored --nocapture
/// ```
#[test]
#[ignore = "needs a real vLLM: VLLM is its program"]
fn episodes_and_a_real_vllm() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = recipe(dir.path());
    let engine = Vllm::start(&dir.path().join("model"), &dir.path().join("vllm.log"), |command| {
        command.args(["--max-model-len", "640"]);
    });
    let listener = Listener::before(engine.port);
    let out = dir.path().join("run");
    let mut command = train_recipe(&recipe, &out);
    let settings = [
        format!("generation.endpoints=[\"http://{}\"]", listener.address),
        format!("run.steps={STEPS}"),
        "generation.engine.control_timeout=2m".to_owned(),
    ];
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    succeed(command);

    let rollouts: Vec<_> = (1..=STEPS).flat_map(|step| read_rollouts(&out, step).unwrap()).collect();
    assert!(rollouts.iter().all(|rollout| rollout.reward.is_some()), "no episode is invalid");
    let turns = rollouts.iter().flat_map(|rollout| &rollout.turns).filter(|turn| turn.trained).count();
    let prompts = listener.prompts.lock().unwrap();
    println!("{} requests, {turns} turns of {} episodes in training", prompts.len(), rollouts.len());
    assert!(turns > rollouts.len() && prompts.len() >= turns);
    for (sent, read) in prompts.iter() {
        assert_eq!(Some(sent), read.as_ref(), "what vLLM read");
    }
    let text = std::fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    let metrics: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let gaps: Vec<f64> = metrics.iter().filter_map(|line| line["proof/mean_gap"].as_f64()).collect();
    println!("by how much the tokens of each step's proof differ: {gaps:?}");
    assert!(gaps.len() as u64 == STEPS && gaps.iter().all(|gap| *gap < MEAN), "{gaps:?}");
}
