//! One process: what a run leaves behind, and that it is the same run after a kill.

use std::path::Path;

use crate::support::{
    Process, count_lines, determined_head, evenkeel, lines, prompts, refused, resume, small, succeed, summary, train,
    wait_for,
};

#[test]
fn a_run_leaves_config_metrics_summary_report_checkpoints_and_weights() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let said = succeed(train(&out));
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("accuracy on unseen problems") && said.contains("report.html"), "{said}");
    let head = format!("\n  head of the receipt                {}\n", determined_head(&out));
    assert!(said.contains(&head), "{said}");
    let report = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(report.contains("<svg") && !report.contains("src=\"http"), "one page that needs nothing from elsewhere");
    let summary = summary(&out).unwrap();
    assert_eq!((&summary["state"], &summary["steps"]), (&"completed".into(), &6.into()));
    assert_eq!(count_lines(&out.join("metrics.jsonl")), 6);
    assert!(std::fs::read_to_string(out.join("config.toml")).unwrap().contains("prompts_per_step = 4"));
    for kind in ["checkpoints", "weights"] {
        let folders = walk(&out.join(kind)).into_iter().filter(|name| name.starts_with("step-")).count();
        // The proof of weights needs those that the process began with, too.
        let most = if kind == "weights" { 3 } else { 2 };
        assert!((1..=most).contains(&folders), "{kind} has {folders} folders");
    }
}

#[test]
fn zero_keeps_every_checkpoint_and_every_version() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut command = train(&out);
    let settings = ["warm_start.steps=1", "checkpoint.every=1", "checkpoint.keep=0", "checkpoint.keep_weights=0"];
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    succeed(command);
    for kind in ["checkpoints", "weights"] {
        let folders = walk(&out.join(kind)).into_iter().filter(|name| name.starts_with("step-")).count();
        assert_eq!(folders, 7, "{kind}: one before the first of six steps, and one after each");
    }
}

#[test]
fn a_resumed_run_may_change_what_decides_no_result_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut command = train(&out);
    command.args(["--steps", "1", "--set", "warm_start.steps=0", "--set", "evaluation.problems=0"]);
    succeed(command);
    for setting in [
        "reward.math.profile=exact",
        "reward.code.limits.cpu=1s",
        "generation.log_probabilities=raw",
        "generation.endpoints=[\"http://127.0.0.1:1\"]",
        "engine.max_model_len=100",
        "learner.optimizer.learning_rate=1",
        "generation.model=other",
        "learner.compute.gradient_blocks=4",
        "run.seed=4",
    ] {
        let mut command = resume(&out);
        command.args(["--set", setting]);
        let message = refused(command);
        assert!(message.contains("with other settings: `"), "{setting}: {message}");
        assert!(message.contains("Allowed to change: run.steps"), "{setting}: {message}");
    }
    let mut command = resume(&out);
    let free = [
        "learner.compute.recompute=selective",
        "learner.compute.threads=3",
        "learner.compute.micro_batch_tokens=100",
        "reward.threads=1",
        "generation.engine.max_waiting=3",
        "engine.max_queue=99",
        "services.outage_timeout=5s",
    ];
    command.args(free.iter().flat_map(|setting| ["--set", setting])).args(["--steps", "2"]);
    succeed(command);
}

#[test]
fn a_clip_that_can_never_act_is_said_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let notes = |settings: &[&str]| {
        let mut command = train(&dir.path().join(settings.len().to_string()));
        command.args(["--verbose", "--steps", "1", "--set", "warm_start.steps=0", "--set", "evaluation.problems=0"]);
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        String::from_utf8(succeed(command).stderr).unwrap()
    };
    let said = notes(&[]);
    assert!(said.contains("note: learner: the clip of policy = ppo never acts"), "{said}");
    let said = notes(&["learner.mini_batch_groups=2"]);
    assert!(!said.contains("never acts"), "{said}");
}

/// Names of all folders under one.
pub(crate) fn walk(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            names.push(entry.file_name().into_string().expect("a name in UTF-8"));
            names.extend(walk(&entry.path()));
        }
    }
    names
}

#[test]
fn json_is_one_line_for_each_step_on_stdout_and_nothing_else_there() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut command = train(&out);
    command.args(["--json", "--steps", "2"]);
    let said = String::from_utf8(succeed(command).stdout).unwrap();
    let values: Vec<serde_json::Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 60 + 2 + 2, "warm start, two evaluations, two steps");
    assert!(values.iter().any(|value| value.get("critic/rewards/mean").is_some()));
}

#[test]
fn two_runs_of_one_seed_and_a_run_that_was_killed_three_times_agree_to_the_bit() {
    let dir = tempfile::tempdir().unwrap();
    let [first, second, killed] = ["first", "second", "killed"].map(|name| dir.path().join(name));
    succeed(train(&first));
    succeed(train(&second));
    assert_eq!(lines(&first), lines(&second));
    assert_eq!(determined_head(&first), determined_head(&second));

    let warm_start = killed.join("warm_start.jsonl");
    let metrics = killed.join("metrics.jsonl");
    let process = Process::start(train(&killed));
    wait_for("the warm start", || count_lines(&warm_start) >= 20);
    process.kill();
    for steps in [2, 5] {
        let process = Process::start(resume(&killed));
        wait_for("steps", || count_lines(&metrics) >= steps);
        process.kill();
    }
    succeed(resume(&killed));
    assert_eq!(lines(&killed), lines(&first));
    assert_eq!(prompts(&killed), prompts(&first));
    assert_eq!(determined_head(&killed), determined_head(&first));
    for run in [first, second, killed] {
        let mut check = evenkeel(&["check"]);
        check.arg(&run);
        succeed(check);
    }
}

#[test]
fn ctrl_c_ends_after_the_step_and_resume_goes_on_to_the_same_end() {
    let dir = tempfile::tempdir().unwrap();
    let [whole, stopped] = ["whole", "stopped"].map(|name| dir.path().join(name));
    succeed(train(&whole));
    let mut process = Process::start(train(&stopped));
    wait_for("a step", || count_lines(&stopped.join("metrics.jsonl")) >= 1);
    process.interrupt();
    assert_eq!(process.0.wait().unwrap().code(), Some(130));
    let steps = count_lines(&stopped.join("metrics.jsonl"));
    assert_eq!(summary(&stopped).unwrap()["state"], "stopped");
    assert!(steps < 6, "it ended early");
    succeed(resume(&stopped));
    assert_eq!(lines(&stopped), lines(&whole));
}

#[test]
fn config_prints_what_a_run_would_use_with_its_documentation() {
    let mut command = evenkeel(&["config", "--set", "sampling.group_size=4", "--recipe"]);
    command.arg(small());
    let said = String::from_utf8(succeed(command).stdout).unwrap();
    assert!(said.starts_with("# Aggregation rule: balanced (written in: defaults)\n"), "{said}");
    assert!(said.contains("\n# What the learner computes: loss = - sum of w phi"), "{said}");
    assert!(
        said.replace("\n# ", " ").contains("old_logp = the learner's before the first update of the step [recompute]")
    );
    assert!(said.contains("group_size = 4") && said.contains("# Samples per prompt"), "{said}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for arguments in [&["config"][..], &["config", "--list"]] {
        let mut child = evenkeel(arguments).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn each_trained_token_proves_the_weights_of_an_engine_with_the_learners_bits() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let said = succeed(train(&out));
    let mut tokens = 0;
    for line in std::fs::read_to_string(out.join("metrics.jsonl")).unwrap().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        tokens += line["proof/equal_tokens"].as_u64().unwrap_or_default();
        assert!(line["proof/max_gap"].is_null(), "nothing else is asked: {line}");
        assert_eq!(line["sampler_audit/gap"].as_f64().unwrap_or_default(), 0.0, "{line}");
    }
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(tokens > 0 && said.contains(&format!("verified by {tokens} trained tokens")), "{said}");
}

#[test]
fn the_weights_of_other_engines_are_proven_after_every_update_and_shown_to_tensorboard() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut command = train(&out);
    // As many as there are: every token can be drawn, but the learner does not compare them.
    command.args(["--set", "sampling.top_k=1000"]);
    succeed(command);
    let text = std::fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    let mut excluded = 0.0;
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let value = |name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{name} in {line}"));
        // Both compute in f32: only sums in another order differ.
        assert!(value("proof/max_gap") < 1e-3 && value("proof/engines") == 1.0, "{line}");
        assert!(value("timing_s/proof") < value("timing_s/step"), "{line}");
        // Natural logarithm of the evidence for a fault: that of a run without one. A step without a signal moves
        // nothing.
        assert!(value("proof/evidence") < 5.0, "{line}");
        excluded = value("proof/excluded/unchanged");
    }
    assert_eq!(excluded, 1.0, "the weights have moved far enough to tell");
    for kind in ["warm_start", "train", "evaluation"] {
        assert!(out.join("tensorboard").join(kind).join("events.out.tfevents.evenkeel").exists(), "{kind}");
    }
    let mut command = evenkeel(&["metrics"]);
    command.arg(&out);
    let table = String::from_utf8(succeed(command).stdout).unwrap();
    // 60 supervised steps, 6 GRPO steps, names; the evaluations share rows with steps.
    assert_eq!(table.lines().count(), 1 + 60 + 6);
    assert!(table.starts_with("_step,") && table.contains(",critic/score/mean,"), "{table}");
}
