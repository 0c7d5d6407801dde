//! The learner computes the log-probabilities that the engine sampled with: with the first weights, and after each of
//! five updates that real training steps made. An engine that kept old weights, or took them wrongly, would differ.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test prints what it measured, and may panic")]

use std::path::Path;
use std::process::Command;

use evenkeel_learner::{Learner, TrainingSettings};
use serde_json::Value;

use crate::support::{evenkeel, small, succeed, train};

/// Largest mean difference of a log-probability over the tokens of a step, both sides in f32.
const MEAN: f64 = 1e-3;
/// Largest factor between probabilities, as `exp(mean |difference|)`.
const FACTOR: f64 = 1.01;

fn agrees(run: &Path) {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 6, "sampled from the first weights and after each of five updates");
    for (step, line) in lines.iter().enumerate() {
        let gap = line["rollout_corr/logp_gap"].as_f64().unwrap();
        println!("after {step} updates: mean |difference| {gap:e}, factor {:.6}", gap.exp());
        assert!(gap < MEAN && gap.exp() < FACTOR, "after {step} updates: {gap}");
    }
}

/// What the learner computes with other weights than those that sampled must show: scores under the first and under the
/// last published weights differ by far more than engine and learner may.
fn stale_weights_would_show(run: &Path) {
    let [first, last] = ["step-60", "step-65"].map(|name| {
        let learner = Learner::open(&run.join("weights").join(name), TrainingSettings::default()).unwrap();
        let sequence: (&[u32], &[u32]) = (&[20, 21, 14, 22, 23, 31, 2], &[45, 46, 47, 48, 3, 18, 19, 20, 1]);
        learner.score(&[sequence], 1.0).unwrap().remove(0).logp
    });
    let moved = first.iter().zip(&last).map(|(a, b)| f64::from((a - b).abs())).sum::<f64>() / first.len() as f64;
    println!("mean |difference| between the first and the last weights: {moved:e}");
    assert!(moved > 10.0 * MEAN, "five updates moved log-probabilities by {moved} only");
}

/// Steps that change the policy a lot.
fn with_large_steps(mut command: Command) -> Command {
    // The reward by length makes every group one that teaches.
    let settings = [
        "learner.optimizer.learning_rate=1e-3",
        "shaping.overlong_buffer_tokens=70",
        "evaluation.problems=0",
        "checkpoint.keep_weights=0",
    ];
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    command
}

#[test]
fn the_learner_agrees_with_the_embedded_engine_before_and_after_five_updates() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    succeed(with_large_steps(train(&out)));
    agrees(&out);
    stale_weights_would_show(&out);
}

/// ```text
/// evenkeel model --recipe cli/tests/suite/small.toml --out DIR
/// VLLM_SERVER_DEV_MODE=1 vllm serve DIR --dtype float32 --logprobs-mode processed_logprobs --generation-config vllm
/// VLLM_URL=http://127.0.0.1:8000 VLLM_MODEL=DIR cargo test --release --test suite agreement -- --ignored --nocapture
/// ```
#[test]
#[ignore = "needs a real vLLM: VLLM_URL and VLLM_MODEL"]
fn the_learner_agrees_with_a_real_vllm_before_and_after_five_updates() {
    let url = std::env::var("VLLM_URL").expect("VLLM_URL is the engine's URL");
    let model = std::env::var("VLLM_MODEL").expect("VLLM_MODEL is the folder that it serves");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut command = evenkeel(&["train", "--recipe"]);
    command.arg(small()).arg("--out").arg(&out);
    command.args([
        "--set",
        "data.kind=arithmetic",
        "--set",
        &format!("model.path={model}"),
        "--set",
        &format!("generation.endpoints=[\"{url}\"]"),
    ]);
    succeed(with_large_steps(command));
    agrees(&out);
    stale_weights_would_show(&out);
}
