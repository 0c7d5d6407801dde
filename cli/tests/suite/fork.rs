//! A run that starts from a step of another one.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{evenkeel, lines, refused, resume, succeed, train};

/// The value that marks the lines of a forked run.
const MARK: &str = "training/forked_at_step";

/// A run with a checkpoint after every step.
fn origin(folder: &Path) -> PathBuf {
    let out = folder.join("old");
    let mut command = train(&out);
    command.args(["--set", "checkpoint.every=1", "--set", "checkpoint.keep=4"]);
    succeed(command);
    out
}

fn fork(from: &Path, step: u64, out: &Path) -> Command {
    let mut command = evenkeel(&["train", "--from"]);
    command.arg(format!("{}@{step}", from.display())).arg("--run").arg(out);
    command
}

#[test]
fn a_fork_with_the_same_settings_is_the_original_to_the_bit_and_says_that_it_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let old = origin(dir.path());
    let new = dir.path().join("new");
    let said = String::from_utf8(succeed(fork(&old, 3, &new)).stderr).unwrap();
    assert!(said.contains("note: forked from run `old` after step 3, with the same settings"), "{said}");

    let mut ours = lines(&new);
    let theirs = lines(&old);
    let marked: Vec<_> = ours.iter_mut().filter_map(|line| Some((line["step"].clone(), line.remove(MARK)?))).collect();
    assert_eq!(ours, theirs);
    // Steps 4, 5 and 6, and the evaluation after the last.
    assert_eq!(marked, [4, 5, 6, 6].map(|step| (step.into(), 3.into())));
    let read = |name: &str| std::fs::read_to_string(new.join(name)).unwrap();
    assert!(read("run.json").contains("\"forked_from\""));
    assert!(read("report.html").contains("forked from run old after step 3"));
}

#[test]
fn a_fork_takes_other_settings_and_can_be_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let old = origin(dir.path());
    let new = dir.path().join("new");
    let mut command = fork(&old, 4, &new);
    command.args(["--set", "learner.optimizer.learning_rate=0.002", "--steps", "5"]);
    let said = String::from_utf8(succeed(command).stderr).unwrap();
    assert!(said.contains("learner.optimizer.learning_rate: ") && said.contains(" → 0.002"), "{said}");
    let mut command = resume(&new);
    command.args(["--steps", "6"]);
    succeed(command);
    let ours = lines(&new);
    let theirs = lines(&old);
    // One more evaluation, after the step that was the last one at first.
    assert_eq!(ours.len(), theirs.len() + 1);
    assert_ne!(ours, theirs);
    // Before it did a step of its own it returns to the other run's checkpoint.
    let again = dir.path().join("again");
    let mut command = fork(&old, 4, &again);
    command.args(["--steps", "4", "--set", "evaluation.after=false"]);
    succeed(command);
    succeed(resume(&again));
    assert_eq!(lines(&again).len(), theirs.len() - 3);
}

#[test]
fn a_deleted_checkpoint_is_refused_with_those_that_exist() {
    let dir = tempfile::tempdir().unwrap();
    let old = origin(dir.path());
    let new = dir.path().join("new");
    let said = refused(fork(&old, 1, &new));
    assert!(
        said.contains("which has no checkpoint after step 1, allowed: a step with a checkpoint: 3, 4, 5, 6"),
        "{said}"
    );
    let said = refused(fork(dir.path(), 1, &new));
    assert!(said.contains("holds no run"), "{said}");
    let mut command = fork(&old, 5, &new);
    command.args(["--set", "warm_start.steps=1"]);
    let said = refused(command);
    assert!(said.contains("warm_start.steps is 1, allowed: "), "{said}");
    assert!(!new.exists());
}
