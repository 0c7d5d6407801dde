//! What `check` says of the data order: at the end of a run, and of a record from which something was taken.

use std::path::Path;
use std::process::Command;

use crate::support::{evenkeel, lines, prompts, refused, resume, succeed, train};

fn audit(run: &Path) -> Command {
    let mut command = evenkeel(&["check"]);
    command.arg(run);
    command
}

/// A run of six steps of four prompts, with whatever else is set; returns what it said.
fn run(out: &Path, set: &[&str]) -> String {
    let mut command = train(out);
    command.args(set.iter().flat_map(|setting| ["--set", setting]));
    String::from_utf8(succeed(command).stderr).unwrap()
}

#[test]
fn a_run_ends_with_its_audit_and_the_command_has_the_lengths() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let said = run(&out, &[]);
    let (_, sentence) = said.split_once("note: audit: ").unwrap_or_else(|| panic!("{said}"));
    let sentence = sentence.lines().next().unwrap().to_owned();
    assert!(
        sentence.starts_with(
            "each of the first 24 prompts of the data order was used exactly once: 24 sent to the \
            learner"
        ),
        "{sentence}"
    );
    let end = ", 0 filtered for lack of an advantage, 0 invalid; all 192 sampled answers were sent to the learner";
    assert!(sentence.ends_with(end), "{sentence}");
    let said = String::from_utf8(succeed(audit(&out)).stdout).unwrap();
    assert!(said.contains(&format!("\n{sentence}\n")), "{said}");
    let line_with =
        |what: &str| said.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {said}"));
    let cells = |line: &str| line.split_whitespace().rev().take(5).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(cells(line_with("0, sampled")), cells(line_with("0, trained")));
    // The mean over all is the mean of the steps' means, which have as many answers each.
    let means: Vec<f64> = lines(&out).iter().filter_map(|line| line.get("response_length/mean")?.as_f64()).collect();
    let mean = format!("{:.1}", means.iter().sum::<f64>() / means.len() as f64);
    assert_eq!(cells(line_with("0, sampled"))[3], mean, "{said}");
}

#[test]
fn groups_that_dynamic_sampling_drops_are_accounted_for() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let said = run(&out, &["sampling.dynamic=true", "run.steps=3"]);
    let metrics = lines(&out);
    let sum = |name: &str| metrics.iter().filter_map(|line| line.get(name)?.as_f64()).sum::<f64>();
    let tried = sum("training/prompts_tried");
    let dropped = sum("training/filter_groups/dropped_groups");
    assert!(dropped > 0.0, "the small model gets whole groups wrong: {said}");
    let sent = format!(
        "each of the first {tried} prompts of the data order was used exactly once: 12 sent to the \
        learner"
    );
    let filtered = format!("{dropped} filtered for lack of an advantage");
    assert!(said.contains(&sent) && said.contains(&filtered), "{sent}, {filtered}: {said}");
    succeed(audit(&out));
}

#[test]
fn a_record_from_which_a_prompt_was_taken_or_that_has_one_twice_fails_the_audit_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    run(&out, &["run.steps=2", "warm_start.steps=1", "evaluation.problems=0"]);
    let path = out.join("prompts.jsonl");
    let whole = prompts(&out);
    std::fs::write(&path, whole.replacen("\"prompt\":5,", "\"prompt\":2,", 1)).unwrap();
    let output = audit(&out).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("prompt 2 is in step 1 and in step 2\nprompt 5 is in no step\n"), "{said}");
    std::fs::write(&path, "{}\n").unwrap();
    assert!(refused(audit(&out)).contains("prompts.jsonl line 1: not a valid prompts record"));
    assert!(refused(audit(dir.path())).contains("holds no run"));
    // A resumed run has the lines before its checkpoint only.
    std::fs::write(&path, whole.lines().next().unwrap().to_owned() + "\n").unwrap();
    let mut command = resume(&out);
    command.args(["--steps", "3"]);
    let said = String::from_utf8(succeed(command).stderr).unwrap();
    assert!(
        said.contains("warning: audit: the record of prompts has faults: step 2 has no line (and 1 more)"),
        "{said}"
    );
}

#[test]
fn a_copy_of_a_run_without_steps_goes_on_from_the_checkpoint_that_its_receipt_names() {
    let dir = tempfile::tempdir().unwrap();
    let [out, copy] = ["run", "a-copy-elsewhere"].map(|name| dir.path().join(name));
    run(&out, &["run.steps=0"]);
    let mut copied = Command::new("cp");
    copied.arg("-r").arg(&out).arg(&copy);
    succeed(copied);
    let mut longer = resume(&copy);
    longer.args(["--steps", "1"]);
    succeed(longer);
    let said = String::from_utf8(succeed(audit(&copy)).stdout).unwrap();
    assert!(said.contains("\nequal: the files of the run are those of its receipt\n"), "{said}");
}
