//! Weights that are not finite: told as what they are, at once, wherever they are read or made.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{count_lines, evenkeel, refused, train, written_model};

/// Makes the last value of the weights, one of the final norm, NaN.
fn poison(model: &Path) {
    let path = model.join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn a_nan_weight_is_named_by_the_dry_run_the_run_the_engine_and_an_evaluation() {
    let dir = tempfile::tempdir().unwrap();
    let model = written_model(dir.path());
    poison(&model);
    let setting = format!("model.path={}", model.display());
    let mut dry_run = train(&dir.path().join("dry"));
    dry_run.args(["--dry-run", "--set", "data.kind=arithmetic", "--set", &setting]);
    let output = dry_run.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && said.contains("tensor `model.norm.weight`: 1 values are not finite"), "{said}");

    let mut run = train(&dir.path().join("run"));
    run.args(["--set", "data.kind=arithmetic", "--set", &setting]);
    let engine =
        evenkeel(&["serve", "engine", "--set", "listen=127.0.0.1:0", "--set", &format!("model={}", model.display())]);
    let eval = {
        let mut command = evenkeel(&["eval", "--model"]);
        let problems = dir.path().join("problems.jsonl");
        std::fs::write(&problems, "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n").unwrap();
        command.arg(&model).arg("--benchmark").arg(format!("sums={}", problems.display()));
        command.args(["--set", "reward.code.sandbox=off"]).arg("--output").arg(dir.path().join("eval"));
        command
    };
    for (command, what) in [(run, "train"), (engine, "engine"), (eval, "eval")] {
        let began = Instant::now();
        let message = refused(command);
        assert!(message.contains("model.norm.weight"), "{what}: {message}");
        assert!(began.elapsed() < Duration::from_secs(30), "{what} took {:?}", began.elapsed());
    }
}

#[test]
fn an_update_that_blows_the_weights_up_ends_the_run_at_once_and_is_blamed() {
    for (rate, phase) in [("1e30", "learner.optimizer.learning_rate"), ("1e38", "learner.optimizer.learning_rate")] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("run");
        let mut command = train(&out);
        command.args(["--set", &format!("{phase}={rate}"), "--set", "evaluation.problems=0"]);
        let began = Instant::now();
        let message = refused(command);
        let is_blamed = message.contains("has blown the weights up") || message.contains("values of `");
        assert!(is_blamed && !message.contains("outage") && message.contains("evenkeel resume"), "{rate}: {message}");
        assert!(began.elapsed() < Duration::from_secs(120), "{rate}: {:?}", began.elapsed());
        assert!(count_lines(&out.join("metrics.jsonl")) <= 1, "no step with such weights counts");
    }
}
