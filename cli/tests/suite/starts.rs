//! What keeps a run from starting: the dry run refuses whatever `train` refuses, and a refused start leaves nothing.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Process, evenkeel, free_ports, refused, succeed, wait_for};

/// Rows of one sum each.
const ROWS: usize = 20;

/// A recipe of its own, without a base.
const RECIPE: &str = "[run]\nsteps = 1\n[model.fresh]\nlayers = 1\nhidden_size = 32\nintermediate_size = 32\n\
                      heads = 1\nkv_heads = 1\n\
                      [data]\nfiles = [\"rows.jsonl\"]\n[sampling]\nprompts_per_step = 2\ngroup_size = 2\n\
                      max_tokens = 40\n\
                      [evaluation]\nproblems = 2\n";

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let row = |n: usize| format!("{}\n", json!({"prompt": format!("{n}+{n}=\n"), "answer": 2 * n}));
    std::fs::write(dir.path().join("rows.jsonl"), (0..ROWS).map(row).collect::<String>()).unwrap();
    std::fs::write(dir.path().join("recipe.toml"), RECIPE).unwrap();
    std::fs::write(dir.path().join("own.toml"), "base = \"arithmetic\"\n[data]\nfiles = [\"rows.jsonl\"]\n").unwrap();
    std::fs::write(dir.path().join("reward.py"), "def reward(completion, row):\n    return 1.0\n").unwrap();
    dir
}

fn command(folder: &Path, recipes: &[&str], settings: &[&str]) -> Command {
    let mut command = evenkeel(&["train"]);
    command.args(recipes).args(settings.iter().flat_map(|setting| ["--set", setting])).current_dir(folder);
    command
}

/// What a dry run finds.
fn problems(folder: &Path, recipes: &[&str], settings: &[&str]) -> Result<Vec<String>, String> {
    let output = command(folder, recipes, settings).args(["--dry-run", "--json", "--no-timing"]).output().unwrap();
    match serde_json::from_slice::<Value>(&output.stdout) {
        Ok(report) => {
            assert_eq!(output.status.success(), report["can_start"] == true, "{report}");
            Ok(report["problems"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect())
        }
        // Settings that are refused as such.
        Err(_) => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

#[test]
fn the_dry_run_refuses_whatever_train_refuses_by_the_same_name_and_nothing_is_left() {
    let mine = "recipe.toml";
    let cases: [(&[&str], &[&str], &str); 20] = [
        // More is held out than there is.
        (&[mine], &["evaluation.problems=20"], "evaluation.problems is 20, of 20 problems"),
        (&[mine], &["evaluation.problems=500"], "evaluation.problems is 500, of 20 problems"),
        (&["own.toml"], &["warm_start.steps=0"], "evaluation.problems is 256, of 20 problems"),
        (&[mine], &["data.held_out_files=rows.jsonl"], "data.held_out_files"),
        (&[mine], &["evaluation.benchmarks=[{name='b', files=['rows.jsonl']}]"], "data source `rows`"),
        // Nothing to imitate.
        (&[mine], &["warm_start.steps=5"], "warm_start.steps is 5"),
        (&["own.toml"], &["evaluation.problems=2"], "warm_start.steps is 600"),
        // What the services of the run refuse.
        (&[mine], &["data.math_profile=foo"], "data.math_profile is \"foo\", allowed: one of default"),
        (&[mine], &["generation.model=foo"], "generation.model is \"foo\", allowed: absent with the embedded engine"),
        (&[mine], &["engine.kv_cache_tokens=100"], "engine.kv_cache_tokens is 100"),
        (&[mine], &["engine.max_model_len=42"], "prompt and response need"),
        (&[mine], &["sampling.engines_while_training=offload"], "sampling.engines_while_training is \"offload\""),
        (&[mine], &["shaping.weights={brevity=0.5}"], "shaping.weights.brevity"),
        (&[mine], &["sampling.stop_token_ids=[5,128]"], "sampling.stop_token_ids"),
        (&[mine], &["data.files=none.jsonl"], "none.jsonl"),
        // A verifier that has nothing to judge, one that is not there, one that cannot start.
        (&[mine], &["data.verifiers.words.path=reward.py"], "data.verifiers.words is a verifier of no row"),
        (&[mine], &["data.verifiers.words.path=no.py", "data.verifier=words"], "data.verifiers.words.path is no.py"),
        (
            &[mine],
            &["data.verifiers.words.path=reward.py", "data.verifiers.words.python=false", "data.verifier=words"],
            "reward.py: the process did not say what it is; it ended with",
        ),
        // Recipes that say nothing of a model, or of data.
        (&["dapo"], &[], "model.path is absent, required"),
        (&["dapo"], &["model.path=."], "data.files is absent, required"),
    ];
    let dir = folder();
    let before = || {
        let mut names: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let files = before();
    let mut wrong = Vec::new();
    for (recipes, settings, words) in cases {
        let found = problems(dir.path(), recipes, settings).unwrap();
        if !found.iter().any(|problem| problem.contains(words)) {
            wrong.push(format!("the dry run, {recipes:?} {settings:?}: {found:?}"));
        }
        assert_eq!(before(), files, "a dry run writes nothing: {settings:?}");

        let said = refused(command(dir.path(), recipes, settings));
        if !said.contains(words) {
            wrong.push(format!("train, {recipes:?} {settings:?}: {said}"));
        }
        assert!(!said.contains("resume"), "there is nothing to go on with: {said}");
        let runs = std::fs::read_dir(dir.path().join("runs")).map_or(0, |runs| runs.count());
        assert_eq!(runs, 0, "a refused start leaves no directory: {settings:?}");
        let _ = std::fs::remove_dir(dir.path().join("runs"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_not_refused_trains() {
    let dir = folder();
    assert_eq!(problems(dir.path(), &["recipe.toml"], &[]), Ok(Vec::new()));
    succeed(command(dir.path(), &["recipe.toml"], &["data.math_profile=unmarked"]));
    assert!(dir.path().join("runs/recipe-0/summary.json").exists());
}

#[test]
fn a_run_goes_on_and_is_extended_by_a_command_of_its_own() {
    let dir = folder();
    succeed(command(dir.path(), &["recipe.toml"], &[]));
    let mut resume = evenkeel(&["resume", "runs/recipe-0", "--steps", "2"]);
    resume.current_dir(dir.path());
    succeed(resume);
    let lines = std::fs::read_to_string(dir.path().join("runs/recipe-0/metrics.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 2);
    let mut nowhere = evenkeel(&["resume", "runs/none"]);
    nowhere.current_dir(dir.path());
    assert!(refused(nowhere).contains("RUN is runs/none, which does not exist"));
}

#[test]
fn an_engine_that_does_not_answer_is_said_at_once_and_a_start_that_is_stopped_leaves_nothing() {
    let dir = folder();
    let [port] = free_ports();
    let log = dir.path().join("log");
    let engine = format!("generation.endpoints=[\"http://127.0.0.1:{port}\"]");
    let began = Instant::now();
    let mut process = Process::start_logging(command(dir.path(), &["recipe.toml"], &[&engine]), &log);
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    wait_for("the note", || said().contains("waiting for an engine"));
    assert!(said().contains(&format!("127.0.0.1:{port}")) && said().contains("gives up in 2m"), "{}", said());
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    process.interrupt();
    assert_eq!(process.0.wait().unwrap().code(), Some(130));
    assert!(said().contains("nothing was kept"), "{}", said());
    assert_eq!(std::fs::read_dir(dir.path().join("runs")).unwrap().count(), 0);
}

#[test]
fn a_recipe_that_has_no_effect_is_noted() {
    let dir = folder();
    let mut config = evenkeel(&["config", "--recipe", "recipe.toml"]);
    config.current_dir(dir.path());
    std::fs::write(dir.path().join("all.toml"), succeed(config).stdout).unwrap();
    let output = command(dir.path(), &["dapo", "all.toml"], &[]).args(["--dry-run"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("note: recipe dapo has no effect: all.toml sets every key of it"), "{said}");

    let mut config = evenkeel(&["config", "--changed", "--recipe", "recipe.toml"]);
    config.current_dir(dir.path());
    let changed = String::from_utf8(succeed(config).stdout).unwrap();
    assert!(changed.lines().count() < 30 && changed.contains("hidden_size = 32"), "{changed}");
    let output = command(dir.path(), &["dapo", "recipe.toml"], &[]).args(["--dry-run"]).output().unwrap();
    assert!(!String::from_utf8(output.stdout).unwrap().contains("has no effect"));
}

#[test]
fn settings_that_are_wrong_in_themselves_are_refused_alike() {
    let dir = folder();
    for (setting, words) in [
        (
            "sampling.group_size=1.5",
            "`sampling.group_size` is 1.5 in --set sampling.group_size=1.5, allowed: an integer",
        ),
        (
            "learner.objective.aggregation=grpo2",
            "`learner.objective.aggregation` is \"grpo2\" in --set learner.objective.aggregation=grpo2, allowed: token",
        ),
    ] {
        let dry = problems(dir.path(), &["recipe.toml"], &[setting]).unwrap_err();
        let said = refused(command(dir.path(), &["recipe.toml"], &[setting]));
        assert!(dry.contains(words) && said.contains(words), "{dry}{said}");
        assert_eq!(said.matches("allowed").count(), 1, "{said}");
    }
}
