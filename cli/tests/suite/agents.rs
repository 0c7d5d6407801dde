//! Agents through the whole program: the example with a tiny model, and a taskset with the package `verifiers` itself.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use evenkeel_run::read_rollouts;
use serde_json::{Value, json};

use crate::episodes::{call, model};
use crate::own_environment::is_killed_and_resumed_with_its_edited_file;
use crate::support::{evenkeel, lines, succeed, train_recipe};

/// The folder of the examples.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

/// A recipe in which an agent plays, with rows and a model.
fn recipe(folder: &Path, rows: &str, more: &str) -> PathBuf {
    let model = model(folder);
    let data = folder.join("rows.jsonl");
    let path = folder.join("agent.toml");
    std::fs::write(&data, rows).unwrap();
    let text = format!(
        "[run]\nseed = 3\nsteps = 3\n[model]\npath = {model:?}\n[sampling]\nprompts_per_step = 4\ngroup_size = 4\n\
         max_tokens = 320\n\
         [turns]\nmax_turns = 4\nmax_turn_tokens = 90\n[warm_start]\nsteps = 80\nexamples_per_step = 16\n[evaluation]\n\
         problems = 4\n\
         [checkpoint]\nevery = 1\n[learner.compute]\nthreads = 2\n[learner.optimizer]\nlearning_rate = 1.5e-4\n\
         [learner.supervised]\nlearning_rate = 2e-3\ntotal_updates = 80\n{more}\n[data]\nfiles = [{data:?}]\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_run_with_an_agent_is_killed_resumed_and_bound_to_its_program() {
    let dir = tempfile::tempdir().unwrap();
    let agent = dir.path().join("agent.py");
    std::fs::copy(examples().join("agent.py"), &agent).unwrap();
    let mut rows = String::new();
    for n in 0..24_u32 {
        let a = 1 + n % 4;
        let b = 1 + n / 6;
        let demonstration = match n % 2 {
            0 => call("add", &format!("\"a\": {a}, \"b\": {b}")),
            _ => format!("\\boxed{{{}}}", a + b),
        };
        let row = json!({"prompt": format!("{n}: {a}+{b}="), "answer": a + b, "demonstration": demonstration});
        writeln!(rows, "{row}").unwrap();
    }
    let recipe = recipe(dir.path(), &rows, "");
    let named = format!("data.environment=\"agent:{}\"", agent.display());
    let train = |out: &Path| {
        let mut train = train_recipe(&recipe, out);
        train.args(["--set", &named]);
        train
    };
    let mut dry_run = train(&dir.path().join("dry"));
    dry_run.arg("--dry-run");
    succeed(dry_run);
    let whole = dir.path().join("whole");
    let killed = dir.path().join("killed");
    succeed(train(&whole));
    let rollouts: Vec<_> = (1..=3).flat_map(|step| read_rollouts(&whole, step).unwrap()).collect();
    assert_eq!(rollouts.len(), 3 * 16);
    assert!(rollouts.iter().all(|rollout| rollout.reward.is_some()), "no episode is invalid");
    assert!(rollouts.iter().all(|rollout| rollout.turns[0].text.starts_with("[add]user\n")), "the agent's tools");
    let results = rollouts.iter().flat_map(|rollout| &rollout.turns).filter(|turn| turn.role == "tool").count();
    assert!(results > 0, "{results} results of the agent's tool");
    let mut audit = evenkeel(&["check"]);
    audit.arg(&whole);
    succeed(audit);

    is_killed_and_resumed_with_its_edited_file(&agent, train(&killed), &killed);
    assert_eq!(lines(&killed), lines(&whole), "the same seeds, the same episodes");
}

/// `VERIFIERS_PYTHON` is an interpreter with the package as it is published, and `uv` beside it or on the path: its
/// harness is a script that uv runs.
#[test]
#[ignore = "VERIFIERS_PYTHON must name a Python with verifiers 0.4.0"]
fn a_taskset_is_trained_on_with_the_package_itself() {
    let python = std::env::var("VERIFIERS_PYTHON").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let taskset = examples().join("verifiers/reverse_text.py");
    let mut written = std::process::Command::new(&python);
    written.arg(examples().join("verifiers/rows.py")).arg(&taskset).args([
        "--taskset",
        "{\"length\": 2}",
        "--count",
        "40",
    ]);
    let rows = String::from_utf8(succeed(written).stdout).unwrap();
    let with_demonstrations: String = rows
        .lines()
        .map(|line| {
            let mut row: Value = serde_json::from_str(line).unwrap();
            row["demonstration"] = row["environment_task"]["answer"].clone();
            format!("{row}\n")
        })
        .collect();
    let more = format!(
        "[environment]\npython = {python:?}\nprocesses = 1\n[environment.verifiers.{taskset:?}]\n\
        taskset = {{ length = 2 }}\n"
    );
    let recipe = recipe(dir.path(), &with_demonstrations, &more);
    let mut train = train_recipe(&recipe, &dir.path().join("run"));
    train.args(["--set", &format!("data.environment=\"verifiers:{}\"", taskset.display())]);
    succeed(train);
    let rollouts: Vec<_> = (1..=3).flat_map(|step| read_rollouts(&dir.path().join("run"), step).unwrap()).collect();
    let rewards: Vec<f64> = rollouts.iter().filter_map(|rollout| rollout.reward).collect();
    assert_eq!((rollouts.len(), rewards.len()), (48, 48), "no episode is invalid");
    assert!(rewards.iter().any(|reward| *reward > 0.0), "the taskset rewards letters in their place: {rewards:?}");
    assert!(rewards.iter().all(|reward| [0.0, 0.5, 1.0].contains(reward) || *reward < 0.5), "{rewards:?}");
}
