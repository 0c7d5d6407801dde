//! Built-in recipes, overlays, and what recipes build on.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Process, evenkeel, refused, succeed, summary, wait_for};

fn dapo_small() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/dapo-small.toml")
}

/// The steps of a run of these recipes.
fn steps(out: &Path, recipes: &[&str]) -> Vec<Value> {
    let mut command = evenkeel(&["train", "--out"]);
    command.arg(out).args(recipes.iter().flat_map(|recipe| ["--recipe", recipe]));
    succeed(command);
    let text = std::fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn rates(steps: &[Value]) -> Vec<f64> {
    steps.iter().map(|step| step["actor/lr"].as_f64().unwrap()).collect()
}

fn about(found: &[f64], wanted: &[f64]) -> bool {
    found.len() == wanted.len() && found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9)
}

#[test]
fn dapo_runs_with_a_tiny_model_and_four_updates_a_step() {
    let dir = tempfile::tempdir().unwrap();
    let small = dapo_small().display().to_string();
    let found = steps(&dir.path().join("run"), &["dapo", &small]);
    assert!(about(&rates(&found), &[1e-4, 2e-4, 3e-4]), "it warms up over ten steps: {:?}", rates(&found));
    for step in &found {
        let moved = step["actor/ppo_kl"].as_f64().unwrap();
        assert!(moved != 0.0, "later mini-batches are trained by a policy that has changed: {step}");
        assert!(step["training/prompts_tried"].as_u64().unwrap() >= 8, "{step}");
    }

    let found = steps(&dir.path().join("exact"), &["dapo", "verl-exact", "verl-token-mean", &small]);
    assert!(about(&rates(&found), &[0.0, 1e-4, 2e-4]), "verl's first step has a rate of 0: {:?}", rates(&found));
    assert_eq!(found[0]["actor/ppo_kl"].as_f64(), Some(0.0), "and nothing moves in it");
}

#[test]
fn a_recipe_may_build_on_others_and_shows_what_comes_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let mine = dir.path().join("mine.toml");
    std::fs::write(&mine, "base = [\"dapo\", \"verl-exact\", \"verl-token-mean\"]\n[sampling]\ngroup_size = 4")
        .unwrap();
    let mut command = evenkeel(&["config", "--set", "run.seed=5", "--recipe"]);
    command.arg(&mine);
    let said = String::from_utf8(succeed(command).stdout).unwrap();
    for setting in ["aggregation = \"batch-token\"", "group_size = 4", "mini_batch_groups = 32", "seed = 5"] {
        assert!(said.contains(setting), "{setting}: {said}");
    }
    assert!(!said.contains("\nbase = "), "what is printed stands alone");
}

#[test]
fn the_rule_of_a_run_of_the_paper_is_named_and_no_overlay_changes_it_in_silence() {
    let config = |arguments: &[&str]| {
        let mut command = evenkeel(&["config", "--recipe", "paper/qwen3-1.7b-dapo-balanced"]);
        command.args(arguments);
        command
    };
    let said = |arguments: &[&str]| {
        let output = succeed(config(arguments));
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    for overlay in [&[][..], &["--recipe", "verl-exact"]] {
        let [settings, notes] = said(overlay);
        let first = "# Aggregation rule: balanced-count (written in: recipe paper/rules/balanced)\n";
        assert!(settings.starts_with(first) && notes.is_empty(), "{settings} {notes}");
    }
    let message = refused(config(&["--recipe", "verl-token-mean"]));
    assert!(
        message.contains("`learner.objective.aggregation` is \"batch-token\" in recipe verl-token-mean"),
        "{message}"
    );
    let [settings, notes] = said(&["--changed", "--set", "learner.objective.aggregation=token"]);
    assert!(settings.starts_with("# Aggregation rule: token (written in: "), "{settings}");
    assert!(notes.contains("is named after learner.objective.aggregation = \"balanced-count\""), "{notes}");
}

#[test]
fn a_recipe_that_names_a_base_that_is_none_is_refused_with_those_that_are() {
    let dir = tempfile::tempdir().unwrap();
    let mine = dir.path().join("mine.toml");
    std::fs::write(&mine, "base = \"paper/qwen3-1.7b-dapo-balancd\"").unwrap();
    let mut command = evenkeel(&["train", "--recipe"]);
    command.arg(&mine);
    let message = refused(command);
    assert!(
        message.contains("`base` is") && message.contains("paper/qwen3-1.7b-dapo-balanced is the nearest recipe"),
        "{message}"
    );
}

#[test]
fn the_recipes_that_come_with_the_program_are_listed() {
    let said = String::from_utf8(succeed(evenkeel(&["config", "--list"])).stdout).unwrap();
    let line = |name: &str| said.lines().find(|line| line.split_whitespace().next() == Some(name));
    for name in ["arithmetic", "dapo", "verl-exact", "verl-token-mean", "paper/qwen2.5-math-7b-polaris-token"] {
        let words = line(name).map_or(0, |line| line.split_whitespace().count());
        assert!(words > 5, "{name} and what it is: {said}");
    }
}

#[test]
fn a_server_starts_a_run_of_several_recipes() {
    let dir = tempfile::tempdir().unwrap();
    let small = dapo_small().display().to_string();
    let runs = format!("runs={}", dir.path().display());
    let nowhere =
        ["endpoints.generation", "endpoints.learner"].map(|endpoint| format!("{endpoint}=http://127.0.0.1:9"));
    let mut command = evenkeel(&["serve", "orchestrator", "--recipe", "dapo", "--recipe", &small]);
    command.args([
        "--set",
        "server.listen=127.0.0.1:0",
        "--set",
        &runs,
        "--set",
        "endpoints.reward=http://127.0.0.1:9",
    ]);
    command.args(nowhere.iter().flat_map(|setting| ["--set", setting]));
    command.args(["--set", "start.set=[\"services.outage_timeout=5s\"]"]);
    let _server = Process::start(command);
    let run = dir.path().join("dapo-small");
    wait_for("the run's end", || summary(&run).is_some());
    let settings = std::fs::read_to_string(run.join("config.toml")).unwrap();
    for setting in ["mini_batch_groups = 2", "dynamic = true", "max_tokens = 80"] {
        assert!(settings.contains(setting), "{setting}: {settings}");
    }
}
