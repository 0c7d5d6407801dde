//! A mistake in one's own code is mended, and the run goes on: nothing of a failed start stands in the way.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::episodes::model;
use crate::support::{count_lines, evenkeel, refused, succeed, train_recipe};

/// Says hello, and takes any answer.
const ENVIRONMENT: &str = "from evenkeel_environment import Environment\n\n\
class Greeting(Environment):\n    def reset(self, task, seed):\n        self.word = task[\"answer\"]\n\n    \
def step(self, action):\n        return None\n\n    def score(self):\n        return {\"reward\": 0.5}\n";

/// A recipe with an environment of one's own, and the file of that.
fn recipe(folder: &Path) -> (PathBuf, PathBuf) {
    let model = model(folder);
    let environment = folder.join("greeting.py");
    let row = |n: usize| format!("{}\n", json!({"prompt": format!("say {n}"), "answer": n.to_string()}));
    let data = folder.join("rows.jsonl");
    std::fs::write(&data, (0..12).map(row).collect::<String>()).unwrap();
    let path = folder.join("own.toml");
    let text = format!(
        "[run]\nsteps = 1\n[model]\npath = {model:?}\n[data]\nfiles = [{data:?}]\nenvironment = {environment:?}\n\
         [sampling]\nprompts_per_step = 2\ngroup_size = 2\nmax_tokens = 12\n[turns]\nmax_turns = 1\n\
         max_turn_tokens = 12\n[evaluation]\nproblems = 0\n[checkpoint]\nevery = 1\n"
    );
    std::fs::write(&path, text).unwrap();
    (path, environment)
}

#[test]
fn after_a_failed_first_step_the_same_command_begins_again_and_later_mistakes_are_mended_by_resume() {
    let dir = tempfile::tempdir().unwrap();
    let (recipe, environment) = recipe(dir.path());
    let run = dir.path().join("run");
    let mistake = |good: &str, bad: &str| {
        let text = ENVIRONMENT.replace(good, bad);
        assert_ne!(text, ENVIRONMENT);
        std::fs::write(&environment, text).unwrap();
    };
    mistake("task[\"answer\"]", "task[\"anwser\"]");
    let said = refused(train_recipe(&recipe, &run));
    assert!(said.contains("anwser"), "{said}");
    assert!(!said.contains("evenkeel resume") && said.contains("no step is finished"), "{said}");
    assert!(run.join("run.json").exists(), "what it has written may say more");

    std::fs::write(&environment, ENVIRONMENT).unwrap();
    let mut dry_run = train_recipe(&recipe, &run);
    dry_run.arg("--dry-run");
    succeed(dry_run);
    succeed(train_recipe(&recipe, &run));
    assert_eq!(count_lines(&run.join("metrics.jsonl")), 1);

    let resume = |steps: &str| -> Command {
        let mut resume = evenkeel(&["resume", "--steps", steps]);
        resume.arg(&run);
        resume
    };
    mistake("0.5", "self.wrod");
    let said = refused(resume("2"));
    assert!(said.contains("wrod") && said.contains("continue with: evenkeel resume"), "{said}");
    mistake("0.5", "0.25");
    let said = String::from_utf8(succeed(resume("2")).stderr).unwrap();
    assert!(said.contains("continues with a changed input: environment"), "{said}");
    let recorded: Value = serde_json::from_slice(&std::fs::read(run.join("inputs.json")).unwrap()).unwrap();
    assert_eq!(recorded["accepted"].as_array().unwrap().len(), 2, "both edits: {recorded}");
    let said = refused(train_recipe(&recipe, &run));
    assert!(said.contains("holds run `run` already"), "{said}");
}
