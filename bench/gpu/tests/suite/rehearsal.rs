//! The first hour on a card, rehearsed on a CPU: every step of `first-hour.sh`, on tiny models, and what a step leaves
//! where it fails.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_evenkeel-bench-gpu");
/// Stands for a machine without PyTorch.
const NO_PYTHON: &str = "/nowhere/python3";
/// Stands for the program that trains; its own tests train on a CPU. It leaves a model in the run directory.
const EVENKEEL: &str =
    r#"echo "evenkeel: $*"; [ "$1" != train ] || { mkdir -p "$5/model" && echo {} >"$5/model/config.json"; }"#;

fn write_program(path: &Path, body: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn first_hour(out: &Path, program: &Path, evenkeel: &str, device: &str, steps: &str) -> (Output, String) {
    first_hour_beside(&[], out, program, evenkeel, device, steps)
}

/// Runs the script with further programs on the path.
fn first_hour_beside(
    programs: &[(&str, &str)],
    out: &Path,
    program: &Path,
    evenkeel: &str,
    device: &str,
    steps: &str,
) -> (Output, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evenkeel");
    write_program(&path, evenkeel);
    for (name, body) in programs {
        write_program(&folder.path().join(name), body);
    }
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("first-hour.sh"));
    command.arg(out).arg(program).arg(path).arg(device);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", folder.path().display()));
    command.env("EVENKEEL_PYTHON", NO_PYTHON).env("STEPS", steps).env("VLLM", "");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output, text)
}

/// The whole rehearsal, once for all tests: its folder, and what it printed.
fn rehearsal() -> &'static (tempfile::TempDir, String) {
    static REHEARSAL: OnceLock<(tempfile::TempDir, String)> = OnceLock::new();
    REHEARSAL.get_or_init(|| {
        let out = tempfile::tempdir().unwrap();
        let (output, text) = first_hour(out.path(), Path::new(PROGRAM), EVENKEEL, "cpu", "");
        assert_eq!(output.status.code(), Some(0), "{text}");
        (out, text)
    })
}

/// The one part of a file.
fn part(name: &str) -> Value {
    let file = rehearsal().0.path().join(format!("{name}.json"));
    let summary: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!((&summary["complete"], &summary["passed"]), (&Value::Bool(true), &Value::Bool(true)), "{summary}");
    let parts = summary["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 1, "{summary}");
    parts[0].clone()
}

fn facts(name: &str, what: &str) -> Vec<Value> {
    let part = part(name);
    let facts = part["facts"].as_array().unwrap().iter();
    facts.filter(|fact| fact["what"] == what || what.is_empty()).cloned().collect()
}

/// Every step in its order: what says most about a card comes first.
const STEPS: [&str; 20] = [
    "probe",
    "correct-goldens",
    "speed-torch",
    "speed-model",
    "train",
    "train-lora",
    "train-vllm",
    "correct-kernels",
    "correct-torch",
    "correct-curve",
    "correct-resume",
    "correct-layer",
    "speed-memory",
    "speed-publish",
    "speed-layer",
    "speed-roofline",
    "variant-head",
    "variant-joined",
    "variant-memory",
    "variant-all",
];

/// Name and result of each step in a table.
fn rows(table: &str) -> Vec<(&str, &str)> {
    table.lines().skip(2).map(|row| (row[..22].trim(), row[22..32].trim())).collect()
}

#[test]
fn on_a_card_kernels_are_checked_too_and_the_sanitizer_comes_last() {
    let out = tempfile::tempdir().unwrap();
    let (_kept, program) = program("echo fine");
    let (_, text) = first_hour(out.path(), &program, EVENKEEL, "cuda", "");
    let table = std::fs::read_to_string(out.path().join("first-hour.txt")).unwrap();
    let names: Vec<&str> = rows(&table).iter().map(|(name, _)| *name).collect();
    assert_eq!(names, [&STEPS[..], &["memcheck"]].concat(), "{text}");
}

#[test]
fn a_step_that_takes_more_memory_than_is_free_is_skipped_with_both_numbers() {
    for (free, result) in [(20, "skipped"), (79, "passed")] {
        let out = tempfile::tempdir().unwrap();
        let (_kept, program) = program("echo fine");
        let free_mib = free * 1024;
        let tool = format!("case \"$*\" in *memory.free*) echo {free_mib} ;; *) echo 81920 ;; esac");
        let programs = [("nvidia-smi", tool.as_str()), ("vllm", "sleep 2")];
        let steps = "correct-torch speed-torch train";
        let (_, text) = first_hour_beside(&programs, out.path(), &program, EVENKEEL, "cuda", steps);
        let table = std::fs::read_to_string(out.path().join("first-hour.txt")).unwrap();
        let found: Vec<(&str, &str)> = rows(&table).into_iter().filter(|(name, _)| !name.ends_with("lora")).collect();
        let names = ["speed-torch", "train", "train-vllm", "correct-torch"];
        let results = names.map(|name| (name, if name == "train" { "passed" } else { result }));
        assert_eq!(found, results, "{text}");
        for gib in [40, 32] {
            let words = format!("skipped: {free} GiB of the card are free, and this takes {gib}");
            assert_eq!(table.contains(&words), result == "skipped", "{table}");
        }
    }
}

#[test]
fn every_step_has_a_row_in_the_table() {
    let (out, text) = rehearsal();
    let table = std::fs::read_to_string(out.path().join("first-hour.txt")).unwrap();
    assert!(text.ends_with(&table), "{text}");
    let rows = rows(&table);
    // Kernels and the sanitizer are a GPU's.
    let names = STEPS.into_iter().filter(|name| !["correct-kernels", "memcheck"].contains(name));
    assert_eq!(rows.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names.collect::<Vec<_>>(), "{table}");
    let passed = |name: &str| if name == "train-vllm" { "skipped" } else { "passed" };
    assert!(rows.iter().all(|(name, result)| *result == passed(name)), "{table}");
    assert!(text.contains("evenkeel: train --recipe arithmetic --out"), "{text}");
    let base = out.path().join("base-bf16").display().to_string();
    assert!(text.contains(&format!("--to {base} --type bf16")), "{text}");
    assert!(text.contains(&format!("model.path={base} --set learner.lora.rank=16")), "{text}");
    assert!(text.contains("learner.lora.base_type=bf16") && text.contains("data.kind=arithmetic"), "{text}");
    assert!(text.contains("== train-vllm (needs a card, evenkeel with CUDA, vLLM)"), "{text}");
}

#[test]
fn all_results_are_in_one_file_and_on_one_page() {
    let out = rehearsal().0.path();
    let all: Value = serde_json::from_slice(&std::fs::read(out.join("first-hour.json")).unwrap()).unwrap();
    let steps = all["steps"].as_array().unwrap();
    let rows = std::fs::read_to_string(out.join("first-hour.txt")).unwrap().lines().skip(2).count();
    assert_eq!(steps.len(), rows);
    assert_eq!(
        (&steps[0]["name"], &steps[0]["needs"], &steps[0]["result"]),
        (&"probe".into(), &"nothing".into(), &"passed".into())
    );
    assert_eq!(all["files"]["speed-model"]["complete"], true);
    let page = std::fs::read_to_string(out.join("first-hour.md")).unwrap();
    assert!(page.contains("| probe | nothing | passed |") && page.contains("## speed-model: pass"), "{page}");
    assert!(page.contains("| ok |") && !page.contains("FAILED"), "{page}");
}

#[test]
fn correctness_is_checked_and_the_curve_is_written() {
    for name in ["goldens", "curve", "resume"] {
        let part = part(&format!("correct-{name}"));
        let checks = part["checks"].as_array().unwrap();
        assert!(!checks.is_empty() && checks.iter().all(|check| check["passed"] == true), "{part}");
    }
    let out = rehearsal().0.path();
    let curve = std::fs::read_to_string(out.join("curve.jsonl")).unwrap();
    assert_eq!(curve.lines().count(), 4);
    assert!(out.join("correct-curve.log").exists() && !out.join("scratch").exists());
}

/// Small shapes stand for the real ones.
#[test]
fn speeds_are_measured_and_what_there_is_nothing_to_compare_with_is_said() {
    let reason = facts("speed-torch", "")[0]["skipped"].as_str().unwrap().to_owned();
    assert!(reason.contains(NO_PYTHON) && reason.contains("EVENKEEL_PYTHON"), "{reason}");
    let passes = facts("speed-model", "pass");
    assert_eq!(passes.len(), 4);
    assert!(passes.iter().all(|pass| pass["tokens_per_second"].as_f64().unwrap() > 0.0), "{passes:?}");
    let updates = facts("speed-model", "update");
    assert!(updates.iter().all(|update| update["skipped"] == "the device has no kernels for it"), "{updates:?}");
    let memory = facts("speed-memory", "memory");
    assert_eq!(memory.len(), 4);
    let is_planned = |fact: &Value| fact["planned_bytes"].as_u64().is_some_and(|bytes| bytes > 0);
    assert!(memory.iter().all(|fact| is_planned(fact) && fact["peak_bytes"].is_null()), "{memory:?}");
    let published = &facts("speed-publish", "publish").pop().unwrap();
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
    assert_eq!(facts("speed-layer", "layer").len(), 3);
    let kernels = facts("speed-roofline", "kernel");
    assert!(kernels.len() > 10 && kernels.iter().all(|kernel| kernel["seconds"].is_null()), "{kernels:?}");
    // A CPU has no speeds to reach.
    for name in ["torch", "model", "memory", "publish", "layer", "roofline"] {
        assert!(part(&format!("speed-{name}"))["checks"].as_array().unwrap().is_empty(), "{name}");
    }
}

/// A CPU has none of the variants' kernels: both passes are the same, and so are their numbers.
#[test]
fn each_variant_is_compared_with_the_pass_without_it() {
    for name in ["head", "joined", "memory", "all"] {
        let part = part(&format!("variants-{name}"));
        let checks = part["checks"].as_array().unwrap();
        assert_eq!(checks.len(), 2, "{part}");
        assert!(checks.iter().all(|check| check["value"] == 0.0), "{part}");
        let facts = facts(&format!("variants-{name}"), "variant");
        assert_eq!((facts.len(), &facts[0]["variant"]), (1, &Value::from(name)));
        assert!(["seconds_without", "seconds"].iter().all(|key| facts[0][key].as_f64().unwrap() > 0.0), "{facts:?}");
    }
}

#[test]
fn adapters_are_skipped_without_the_model_that_they_begin_with() {
    let out = tempfile::tempdir().unwrap();
    let (_kept, program) = program("exit 0");
    let (_, text) = first_hour(out.path(), &program, "exit 0", "cpu", "train-lora");
    assert!(text.contains("skipped: the training run before has left no model"), "{text}");
}

/// A program with a result of its own for each part.
const OF_PARTS: &str =
    r#"case "$*" in *goldens) echo 'a golden differs'; exit 1 ;; *curve) exit 77 ;; *) echo fine ;; esac"#;

fn program(body: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    write_program(&path, body);
    (folder, path)
}

#[test]
fn a_step_that_fails_does_not_keep_the_next_one_from_running() {
    let out = tempfile::tempdir().unwrap();
    let (_kept, program) = program(OF_PARTS);
    let (output, text) = first_hour(out.path(), &program, "exit 3", "cpu", "");
    assert_eq!(output.status.code(), Some(1), "{text}");
    let row = |name: &str| text.lines().rfind(|line| line.starts_with(&format!("{name} "))).unwrap_or_default();
    assert!(row("probe").contains("FAILED") && row("train").contains("FAILED"), "{text}");
    assert!(
        row("correct-goldens").contains("FAILED") && row("correct-goldens").ends_with("a golden differs"),
        "{text}"
    );
    assert!(row("correct-curve").contains("skipped") && row("speed-roofline").contains("passed"), "{text}");
}

#[test]
fn the_table_is_printed_also_when_the_hour_is_interrupted() {
    let out = tempfile::tempdir().unwrap();
    let (_kept, program) = program("kill -TERM $(ps -o ppid= -p $PPID); sleep 1");
    let (output, text) = first_hour(out.path(), &program, "echo probed", "cpu", "probe correct-goldens speed");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("probe                 passed") && text.contains("step "), "{text}");
}

#[test]
fn steps_are_chosen_by_the_beginning_of_their_names() {
    let out = tempfile::tempdir().unwrap();
    let (_kept, program) = program("echo fine");
    let (output, text) = first_hour(out.path(), &program, "echo fine", "cpu", "speed correct-layer");
    assert_eq!(output.status.code(), Some(0), "{text}");
    let table = std::fs::read_to_string(out.path().join("first-hour.txt")).unwrap();
    assert_eq!(table.lines().skip(2).count(), 1 + 6, "{table}");
}
