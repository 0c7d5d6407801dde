//! What the scripts promise to their caller: exit status and files.

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

#[test]
fn a_part_that_cannot_run_fails_the_run_and_says_why() {
    let out = tempfile::tempdir().unwrap();
    let empty = tempfile::tempdir().unwrap();
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
