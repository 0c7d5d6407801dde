//! What the scripts promise to their caller: exit status and files.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_evenkeel-bench-gpu");
/// Stands for a machine without PyTorch.
const NO_PYTHON: &str = "/nowhere/python3";

fn script(name: &str, arguments: &[&str]) -> Output {
    let mut script = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(name));
    script.args(arguments).env("EVENKEEL_PYTHON", NO_PYTHON).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A build without CUDA stands for a machine without a GPU: it says so before it looks for one.
#[cfg(not(feature = "cuda"))]
#[test]
fn without_a_gpu_the_machine_is_described_and_nothing_is_run() {
    for name in ["correct.sh", "speed.sh"] {
        let out = tempfile::tempdir().unwrap();
        let output = script(name, &[out.path().to_str().unwrap(), PROGRAM]);
        assert_eq!(output.status.code(), Some(77), "{}", text(&output));
        assert!(text(&output).contains("nothing was run"), "{}", text(&output));
        let probe = std::fs::read(out.path().join("probe.json")).unwrap();
        let probe: serde_json::Value = serde_json::from_slice(&probe).unwrap();
        assert!(probe["libraries"].as_array().is_some_and(|libraries| libraries.len() > 4));
        assert!(!out.path().join("correct.json").exists());
    }
}

#[test]
fn passed_checks_are_written_with_their_limits() {
    let out = tempfile::tempdir().unwrap();
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let arguments = ["memcheck".as_ref(), out.path(), &goldens, "cpu".as_ref()];
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.path().join("memcheck.json")).unwrap()).unwrap();
    assert_eq!(summary["passed"], true);
    let checks = summary["parts"][0]["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 20);
    assert!(checks.iter().all(|check| check["value"].as_f64().unwrap() <= check["limit"].as_f64().unwrap()));
}

/// Every part of `correct.sh`, on tiny models.
#[test]
fn a_dry_run_on_a_cpu_checks_every_part_and_writes_the_curve() {
    let out = tempfile::tempdir().unwrap();
    let output = script("correct.sh", &[out.path().to_str().unwrap(), PROGRAM, "cpu"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.path().join("correct.json")).unwrap()).unwrap();
    let parts = summary["parts"].as_array().unwrap();
    let names: Vec<_> = parts.iter().map(|part| part["part"].as_str().unwrap()).collect();
    assert_eq!(names, ["goldens", "torch", "curve", "resume", "layer"]);
    for part in parts.iter().filter(|part| ["goldens", "curve", "resume"].iter().any(|name| part["part"] == *name)) {
        let checks = part["checks"].as_array().unwrap();
        assert!(!checks.is_empty() && checks.iter().all(|check| check["passed"] == true), "{part}");
    }
    let curve = std::fs::read_to_string(out.path().join("curve.jsonl")).unwrap();
    assert_eq!(curve.lines().count(), 4);
    assert!(out.path().join("correct.log").exists());
}

/// Small shapes stand for the real ones.
#[test]
fn speeds_are_measured_and_what_there_is_nothing_to_compare_with_is_said() {
    let out = tempfile::tempdir().unwrap();
    let output = script("speed.sh", &[out.path().to_str().unwrap(), PROGRAM, "cpu"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.path().join("speed.json")).unwrap()).unwrap();
    let facts = |part: usize, what: &str| -> Vec<serde_json::Value> {
        let facts = summary["parts"][part]["facts"].as_array().unwrap().iter();
        facts.filter(|fact| fact["what"] == what || what.is_empty()).cloned().collect()
    };
    let reason = facts(0, "")[0]["skipped"].as_str().unwrap().to_owned();
    assert!(reason.contains(NO_PYTHON) && reason.contains("EVENKEEL_PYTHON"), "{reason}");
    let passes = facts(1, "pass");
    assert_eq!(passes.len(), 4);
    assert!(passes.iter().all(|pass| pass["tokens_per_second"].as_f64().unwrap() > 0.0), "{passes:?}");
    let updates = facts(1, "update");
    assert!(updates.iter().all(|update| update["skipped"] == "the device has no kernels for it"), "{updates:?}");
    let memory = facts(2, "memory");
    assert_eq!(memory.len(), 4);
    let is_planned = |fact: &serde_json::Value| fact["planned_bytes"].as_u64().is_some_and(|bytes| bytes > 0);
    assert!(memory.iter().all(|fact| is_planned(fact) && fact["peak_bytes"].is_null()), "{memory:?}");
    let published = &facts(3, "publish").pop().unwrap();
    let seconds = |key: &str| published[key].as_f64().unwrap();
    assert!(
        seconds("read_seconds") >= seconds("published_seconds") && seconds("published_seconds") > 0.0,
        "{published}"
    );
    assert!(published["bytes"].as_u64().unwrap() > 100_000, "{published}");
    for key in
        ["plain_processor_seconds", "digested_bytes_per_second", "written_bytes_per_second", "processors_for_2_s"]
    {
        assert!(seconds(key) > 0.0, "{key}: {published}");
    }
    assert_eq!(facts(4, "layer").len(), 3);
    // A CPU has no speeds to reach.
    assert!(summary["parts"].as_array().unwrap().iter().all(|part| part["checks"].as_array().unwrap().is_empty()));
    assert!(!out.path().join("scratch").exists());
}

#[test]
fn a_part_that_cannot_run_fails_the_run_and_says_why() {
    let (out, empty) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let arguments = ["memcheck".as_ref(), out.path(), empty.path(), "cpu".as_ref()];
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("config.json"), "{}", text(&output));
    assert!(out.path().join("memcheck.json").exists());
}

#[test]
fn wrong_arguments_have_a_status_of_their_own() {
    assert_eq!(script("correct.sh", &[]).status.code(), Some(2));
    let out = tempfile::tempdir().unwrap();
    let output = script("correct.sh", &[out.path().to_str().unwrap(), "/nowhere/program"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("bench/gpu/build.sh"), "{}", text(&output));
}
