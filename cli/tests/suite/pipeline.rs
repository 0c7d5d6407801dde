//! Sampling ahead of training, with the real services: the same bits in one process and five, killed or not.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Process, Processes, count_lines, determined_head, evenkeel, lines, prompts, resume, small, succeed, summary, train,
    wait_for, written_model,
};

/// Settings with which a run may have a lag: which policy is in the denominator, and weights that engines may be
/// brought back to.
const SAMPLED_BEFORE: [&str; 2] = ["learner.old_logp=proximal", "checkpoint.keep_weights=3"];

fn lagging(out: &Path, max_lag: u32) -> Command {
    let mut command = train(out);
    let lag = format!("pipeline.max_lag={max_lag}");
    let others = SAMPLED_BEFORE.iter().filter(|_| max_lag > 0).map(|setting| (*setting).to_owned());
    for setting in std::iter::once(lag).chain(others) {
        command.args(["--set", &setting]);
    }
    command
}

#[test]
fn a_lag_of_0_is_the_run_without_the_section_and_larger_ones_are_others() {
    let dir = tempfile::tempdir().unwrap();
    let [without, zero, one] = ["without", "zero", "one"].map(|name| dir.path().join(name));
    succeed(train(&without));
    succeed(lagging(&zero, 0));
    succeed(lagging(&one, 1));
    assert_eq!(lines(&zero), lines(&without));
    assert_ne!(lines(&one), lines(&without));
}

/// Another recipe of that name in a folder: the small one with a lag of 2 and more sections.
fn recipe(folder: &Path, more: &str) -> PathBuf {
    let path = folder.join("small.toml");
    let small = std::fs::read_to_string(small()).unwrap();
    let text = small.replace("[checkpoint]\n", "[checkpoint]\nkeep_weights = 3\n").replace("= 80", "= 24");
    std::fs::write(&path, format!("{text}\n[learner]\nold_logp = \"proximal\"\n\n[pipeline]\nmax_lag = 2\n{more}"))
        .unwrap();
    path
}

/// Runs a recipe in one process, in one that is killed repeatedly, and in five; returns the folder of the first run.
fn assert_agrees(folder: &Path, recipe: &Path) -> PathBuf {
    assert_agrees_on(folder, recipe, || written_model(folder))
}

/// Runs as above with a model in `model` of the folder, which is there once one process has run.
pub(crate) fn assert_agrees_on(folder: &Path, recipe: &Path, model: impl FnOnce() -> PathBuf) -> PathBuf {
    let [whole, killed] = ["whole", "killed"].map(|name| folder.join(name));
    let train = |out: &Path| {
        let mut command = evenkeel(&["train", "--recipe"]);
        command.arg(recipe).arg("--out").arg(out);
        command
    };
    succeed(train(&whole));

    let metrics = killed.join("metrics.jsonl");
    let mut process = Process::start(train(&killed));
    for steps in [1, 3, 5] {
        wait_for("steps", || count_lines(&metrics) >= steps);
        process.kill();
        process = Process::start(resume(&killed));
    }
    drop(process);
    succeed(resume(&killed));
    assert_eq!((lines(&killed), prompts(&killed)), (lines(&whole), prompts(&whole)));
    assert_eq!(determined_head(&killed), determined_head(&whole));

    let model = model();
    let _services = Processes::start(folder, recipe, &model, &[]);
    let run = folder.join("runs/small");
    wait_for("the run's end", || summary(&run).is_some_and(|summary| summary["state"] == "completed"));
    assert_eq!((lines(&run), prompts(&run)), (lines(&whole), prompts(&whole)));
    assert_eq!(determined_head(&run), determined_head(&whole));
    whole
}

/// The groups of a run's steps, each with the oldest and the newest version that sampled it, and the version that its
/// step began with.
fn versions(run: &Path) -> Vec<(u64, u64, u64)> {
    let text = prompts(run);
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let of_line = |line: serde_json::Value| {
        let base = line["base_version"].as_u64().unwrap();
        let group = |group: &serde_json::Value| {
            let oldest = group["version"].as_u64().unwrap();
            (oldest, group["newest"].as_u64().unwrap_or(oldest), base)
        };
        line["groups"].as_array().unwrap().iter().map(group).collect::<Vec<_>>()
    };
    lines.flat_map(of_line).collect()
}

#[test]
fn a_run_with_a_lag_agrees_to_the_bit_in_one_process_in_five_and_killed() {
    let dir = tempfile::tempdir().unwrap();
    assert_agrees(dir.path(), &recipe(dir.path(), ""));
}

#[test]
fn a_split_run_agrees_to_the_bit_in_one_process_in_five_and_killed() {
    let dir = tempfile::tempdir().unwrap();
    let run =
        assert_agrees(dir.path(), &recipe(dir.path(), "split = 1\n\n[learner.objective]\ncorrection = \"tis\"\n"));
    for (number, (oldest, newest, base)) in versions(&run).into_iter().enumerate().skip(12) {
        let lag = if number % 4 == 3 { 1 } else { 2 };
        assert_eq!((oldest, newest), (base - lag, base - lag), "prompt {number}");
    }
}

#[test]
fn partial_answers_agree_to_the_bit_in_one_process_in_five_and_killed() {
    let dir = tempfile::tempdir().unwrap();
    let more = "partial = true\nmax_versions = 3\n\n[learner.objective]\ncorrection = \"tis\"\n";
    let run = assert_agrees(dir.path(), &recipe(dir.path(), more));
    let versions = versions(&run);
    assert!(versions.iter().skip(12).all(|(oldest, newest, base)| *oldest == base - 2 && newest <= base));
    let of_several = versions.iter().filter(|(oldest, newest, _)| newest > oldest).count();
    assert!(of_several > 4, "{of_several} groups have answers of several versions");
    let audit = succeed(evenkeel(&["check", run.to_str().unwrap()]));
    let printed = String::from_utf8(audit.stdout).unwrap();
    assert!(printed.contains("exactly once"), "{printed}");
}

#[test]
fn in_order_of_completion_a_run_trains_on_each_prompt_once_however_often_it_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut command = train(&out);
    for setting in ["pipeline.max_lag=1", "pipeline.order=completion", "learner.old_logp=rollout"] {
        command.args(["--set", setting]);
    }
    let mut process = Process::start(command);
    for steps in [1, 3, 5] {
        wait_for("steps", || count_lines(&out.join("metrics.jsonl")) >= steps);
        process.kill();
        process = Process::start(resume(&out));
    }
    drop(process);
    let said = String::from_utf8(succeed(resume(&out)).stderr).unwrap();
    assert!(said.contains("does not replay"), "{said}");
    let mut audit = evenkeel(&["check"]);
    audit.arg(&out);
    let said = String::from_utf8(succeed(audit).stdout).unwrap();
    assert!(said.contains("prompts of the data order was used exactly once: 24 sent to the learner"), "{said}");
    assert!(!said.contains("still being sampled"), "{said}");
    for line in lines(&out).iter().filter(|line| line.contains_key("pipeline/lag")) {
        assert!(line["pipeline/lag"].as_f64().unwrap() <= 1.0 && line.contains_key("pipeline/completion/taken_length"));
    }
}
