//! Runs whose judge is a real vLLM: killed and resumed, and on a shared record. Each answer has a verdict or a failure
//! of the judge.
#![allow(clippy::print_stdout, reason = "a test prints what it measured")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use evenkeel_run::{Rollout, read_rollouts};
use evenkeel_testkit::chat_server::{ChatAnswer, ChatRequest, ChatServer};
use serde_json::{Value, json};

use crate::judge_desk::{Desk, KEY, judge};
use crate::real_vllm::Vllm;
use crate::support::{Process, count_lines, determined_head, evenkeel, resume, succeed, train, wait_for};

/// Messages one after the other; the answer of the model follows in a line of its own.
const TEMPLATE: &str = "{% for message in messages %}{{ message['content'] }}{% endfor %}{{ '\\n' }}";
const STEPS: u64 = 4;

/// What the model reads of a request under [`TEMPLATE`].
fn prompt(request: &ChatRequest) -> String {
    let body: Value = serde_json::from_str(&request.body).unwrap();
    let contents = body["messages"].as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap());
    contents.collect::<String>() + "\n"
}

/// A tiny model that has learned to answer such requests, mostly in the form that they ask for.
fn taught(folder: &Path, requests: &[ChatRequest]) -> PathBuf {
    let row = |(number, request): (usize, &ChatRequest)| {
        let scores = format!(r#"{{"long": {}, "rude": 0}}"#, [0.25, 0.75][number % 2]);
        json!({"prompt": prompt(request), "answer": "0", "demonstration": scores}).to_string() + "\n"
    };
    let rows = folder.join("taught.jsonl");
    std::fs::write(&rows, requests.iter().enumerate().map(row).collect::<String>()).unwrap();
    let (run, model) = (folder.join("taught"), folder.join("judge"));
    let mut command = train(&run);
    let settings =
        ["run.steps=0", "evaluation.problems=0", "model.fresh.context_tokens=2048", "warm_start.examples_per_step=8"];
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    command.args(["--set", &format!("data.files={}", rows.display())]);
    succeed(command);
    let mut command = evenkeel(&["export"]);
    command.arg(&run).arg("--to").arg(&model);
    succeed(command);
    model
}

/// Starts it with the key of the desk.
fn serve(model: &Path, folder: &Path) -> Vllm {
    let template = folder.join("template.jinja");
    std::fs::write(&template, TEMPLATE).unwrap();
    Vllm::start(model, &folder.join("vllm.log"), |command| {
        command.args(["--max-model-len", "2048", "--served-model-name", "judge", "--chat-template"]);
        command.arg(&template).env("VLLM_API_KEY", KEY);
    })
}

/// The replies that a record has, each of a question of its own.
fn replies(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("judge.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let digests: BTreeSet<_> = lines.iter().map(|line| line["digest"].as_str().unwrap()).collect();
    assert_eq!(digests.len(), lines.len(), "no question was asked twice");
    lines
}

/// ```text
/// VLLM=ENV/bin/vllm cargo test --release --workspace --test suite a_judge_that_is_a_real_vllm -- --ignored --nocapture
/// ```
#[test]
#[ignore = "needs a real vLLM: VLLM is its program"]
fn a_judge_that_is_a_real_vllm() {
    // It learns from what a run asks a judge.
    let server = judge();
    let desk = Desk::new(&server.url);
    succeed(desk.train("asked", &["run.steps=1"]));
    let vllm = serve(&taught(desk.folder.path(), &server.requests()), desk.folder.path());
    let desk = Desk { url: format!("{}/v1", vllm.url()), ..desk };
    let steps = format!("run.steps={STEPS}");
    let settings = [
        steps.as_str(),
        "run.rollouts=all",
        "checkpoint.every=1",
        "services.max_invalid_share=0.9",
        "reward.judge.sampling.temperature=1",
        "reward.judge.sampling.max_tokens=60",
    ];

    let out = desk.path("killed");
    let process = Process::start(desk.train("killed", &settings));
    wait_for("two steps", || count_lines(&out.join("metrics.jsonl")) >= 2);
    process.kill();
    succeed(resume(&out));

    // Each reply is a verdict or a failure of the judge, and no answer has a reward without one.
    let rollouts: Vec<Rollout> = (1..=STEPS).flat_map(|step| read_rollouts(&out, step).unwrap()).collect();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for rollout in &rollouts {
        let code = rollout.reason.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_').next().unwrap();
        *reasons.entry(code).or_default() += 1;
        assert!(code == "judged" || code.starts_with("judge_"), "{rollout:?}");
        assert_eq!(rollout.reward.is_some(), code == "judged", "{rollout:?}");
    }
    let answers: BTreeSet<_> = rollouts.iter().map(|rollout| (&rollout.prompt, rollout.text.trim())).collect();
    println!("{} answers, {} replies: {reasons:?}", rollouts.len(), replies(&out).len());
    assert_eq!(replies(&out).len(), answers.len());
    assert!(reasons["judged"] > 0 && reasons["judge_wrong_format"] > 0, "{reasons:?}");

    // Neither a replay nor a run on the same record asks anybody.
    let nobody = ChatServer::start(|_, _| ChatAnswer::error(500, "nobody is to be asked"));
    let mut replay = evenkeel(&["replay"]);
    replay.arg(&out);
    let said = String::from_utf8(succeed(replay).stdout).unwrap();
    assert!(said.lines().last().is_some_and(|last| last.starts_with("0 of ")), "{said}");
    let desk = Desk { url: nobody.url.clone(), ..desk };
    let shared = format!("reward.judge.records={}", out.display());
    succeed(desk.train("shared", &[&settings[..], &[shared.as_str()]].concat()));
    assert_eq!(determined_head(&desk.path("shared")), determined_head(&out));
    assert_eq!(nobody.requests().len(), 0);
}
