//! What a run on a CPU takes of the machine's memory, beside what its dry run has planned.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "a test prints what it measured")]

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Process, evenkeel, succeed, summary, train_recipe};

/// Shares of its plan that a run takes on a quiet machine: a plan is an upper bound.
const QUIET: RangeInclusive<f64> = 0.9..=1.0;
/// Shares of its plan that a run takes on any machine: how many samples engine and learner have at once depends on what else it
/// does, and how much of what was given back it takes again on its allocator.
const ANYWHERE: RangeInclusive<f64> = 0.8..=1.05;

/// A model of 54 million random weights. One sample in five ends early, so that groups differ in their lengths
/// and by that in their rewards; the others are as long as the plan takes all to be.
const RECIPE: &str = r#"
[run]
steps = 2

[model.fresh]
vocabulary_size = 12000
hidden_size = 640
intermediate_size = 1792
layers = 10
heads = 10
kv_heads = 5
head_dim = 64
tied = true

[data]
kind = "arithmetic"

[sampling]
prompts_per_step = 4
group_size = 16
max_tokens = 32

[shaping]
overlong_buffer_tokens = 30

[evaluation]
problems = 0
"#;

fn recipe(folder: &Path) -> PathBuf {
    let ends: Vec<String> = (200..280).map(|id| id.to_string()).collect();
    let text = RECIPE.replace("max_tokens = 32", &format!("max_tokens = 32\nstop_token_ids = [{}]", ends.join(", ")));
    let path = folder.join("recipe.toml");
    std::fs::write(&path, text).unwrap();
    path
}

fn with(mut command: Command, settings: &[&str]) -> Command {
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    command
}

/// Bytes that the dry run says a run needs.
fn planned(recipe: &Path, settings: &[&str]) -> u64 {
    let mut command = evenkeel(&["train", "--dry-run", "--json", "--no-timing", "--recipe"]);
    command.arg(recipe);
    let report: Value = serde_json::from_slice(&succeed(with(command, settings)).stdout).unwrap();
    for part in report["memory"]["parts"].as_array().unwrap() {
        println!("{:>12}  {}", part["bytes"], part["what"].as_str().unwrap());
    }
    report["memory"]["needed_bytes"].as_u64().unwrap()
}

/// The most bytes that a process has had resident, while it is there.
fn peak(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// The most bytes that a run has had resident.
fn measured(recipe: &Path, run: &Path, settings: &[&str]) -> u64 {
    let mut process = Process::start(with(train_recipe(recipe, run), settings));
    let mut most = 0;
    while process.0.try_wait().unwrap().is_none() {
        most = most.max(peak(process.0.id()).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(summary(run).unwrap()["state"], "completed");
    most
}

fn agrees(recipe: &Path, run: &Path, settings: &[&str], shares: RangeInclusive<f64>) -> u64 {
    let planned = planned(recipe, settings);
    let measured = measured(recipe, run, settings);
    let ratio = measured as f64 / planned as f64;
    println!("{}: {measured} of {planned} planned bytes, {ratio:.3}", settings.join(" "));
    assert!(shares.contains(&ratio), "{settings:?}: {measured} bytes at the peak, {planned} planned");
    measured
}

#[test]
fn a_run_takes_what_its_dry_run_plans_with_all_weights_and_with_adapters() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = recipe(dir.path());
    let measure = |name: &str, settings: &[&str]| agrees(&recipe, &dir.path().join(name), settings, ANYWHERE);
    // With one thread the order in which blocks are summed is always the same, and so is how many sums are in memory.
    let one = ["learner.compute.threads=1", "engine.threads=1"];
    let lora = "learner.lora.rank=8";
    let full = measure("full", &one);
    let adapters = measure("adapters", &[&one[..], &[lora]].concat());
    assert!(2 * adapters < full, "{adapters} and {full}");
    measure("adapters-of-two-threads", &["learner.compute.threads=2", "engine.threads=2", lora]);
}

/// `EVENKEEL_SMOLLM2` names the folder of SmolLM2-135M-Instruct.
#[test]
#[ignore = "needs EVENKEEL_SMOLLM2, and a quarter of an hour"]
fn a_real_model_takes_what_its_dry_run_plans() {
    let folder = std::env::var("EVENKEEL_SMOLLM2").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let model = format!("model.path={folder}");
    let settings =
        [model.as_str(), "run.steps=3", "evaluation.problems=0", "learner.compute.threads=1", "engine.threads=1"];
    let measure = |name: &str, more: &[&str]| {
        agrees(Path::new("smollm2"), &dir.path().join(name), &[&settings[..], more].concat(), QUIET)
    };
    let adapters = measure("adapters", &["learner.lora.rank=16", "learner.optimizer.learning_rate=1.5e-4"]);
    let full = measure("full", &[]);
    assert!(2 * adapters < full, "{adapters} and {full}");
}
