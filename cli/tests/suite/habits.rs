//! What people type out of habit is recognised: names of other trainers, a setting without `--set`, a near file name.

use std::process::Command;

use serde_json::json;

use crate::support::{evenkeel, refused, small, succeed};

/// `evenkeel` in a folder with a recipe and rows.
fn within(folder: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = evenkeel(arguments);
    command.current_dir(folder);
    command
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let base = toml::Value::from(small().display().to_string());
    std::fs::write(dir.path().join("recipe.toml"), format!("base = {base}\n")).unwrap();
    let row = |n: usize| format!("{}\n", json!({"prompt": format!("{n}+{n}=\n"), "answer": (2 * n).to_string()}));
    std::fs::write(dir.path().join("rows.jsonl"), (0..100).map(row).collect::<String>()).unwrap();
    std::fs::write(dir.path().join("reward.py"), "def reward(completion, row):\n    return 1.0\n").unwrap();
    dir
}

#[test]
fn what_is_meant_is_said() {
    let dir = folder();
    for (arguments, words) in [
        (&["--set", "learning_rate=1e-5"][..], "here it is `learner.optimizer.learning_rate`"),
        (&["--set", "learner.lr=1e-5"], "here it is `learner.optimizer.learning_rate`"),
        (&["--set", "num_generations=8"], "`num_generations` is TRL's name; here it is `sampling.group_size`"),
        (
            &["--set", "actor_rollout_ref.actor.optim.lr=1e-6"],
            "`actor_rollout_ref.actor.optim.lr` is verl's name; here it is `learner.optimizer.learning_rate`",
        ),
        (&["--set", "algorithm.kl_ctrl.kl_coef=0.1"], "it is `learner.objective.kl_coefficient`"),
        (&["--set", "environment=calculator"], "here it is `data.environment`"),
        (&["sampling.group_size=8"], "a setting is written as --set 'sampling.group_size=8'"),
        (&["recipe.tml"], "recipe.toml is the nearest file"),
        (
            &["--set", "model.path=Qwen/Qwen3-0.6B", "--set", "data.files=rows.jsonl"],
            "hf:Qwen/Qwen3-0.6B for a model of the hub",
        ),
        (&["--set", "sampling.max_tokens=1000000", "--set", "data.files=rows.jsonl"], "above sampling.max_tokens"),
    ] {
        let mut command = within(dir.path(), &["train"]);
        if arguments[0] == "--set" {
            command.arg("recipe.toml");
        }
        let said = refused({
            command.args(arguments);
            command
        });
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    let said = refused(within(dir.path(), &["generate", "Qwen/Qwen3-0.6B", "Hello"]));
    assert!(said.contains("hf:Qwen/Qwen3-0.6B for a model of the hub"), "{said}");
}

#[test]
fn a_recipe_may_be_named_by_config() {
    let dir = folder();
    let mut dry_run = within(dir.path(), &["train", "--config", "recipe.toml", "--dry-run", "--no-timing"]);
    dry_run.env("NO_COLOR", "1");
    let said = String::from_utf8(succeed(dry_run).stdout).unwrap();
    assert!(said.starts_with("the run can start\n") && said.contains("recipe: 6 steps"), "{said}");
}

#[test]
fn an_interpreter_that_is_not_there_is_named_by_its_own_setting() {
    let dir = folder();
    let settings = [
        "data.files=rows.jsonl",
        "warm_start.steps=0",
        "data.verifier=mine",
        "data.verifiers.mine.path=reward.py",
        "data.verifiers.mine.python=python9",
    ];
    let command = |more: &[&str]| {
        let mut command = within(dir.path(), &["train", "recipe.toml"]);
        command.args(more).args(settings.iter().flat_map(|setting| ["--set", setting]));
        command
    };
    let words = "data.verifiers.mine.python is \"python9\", allowed: an interpreter of Python that is there";
    assert!(refused(command(&[])).contains(words));
    let output = command(&["--dry-run"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("the run cannot start: 1 problem\nproblem: ") && said.contains(words), "{said}");
}
