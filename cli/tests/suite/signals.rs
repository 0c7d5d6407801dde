//! Signals of schedulers and terminals to a run: what it does within its grace, and that nothing is lost.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Process, count_lines, lines, resume, small, succeed, summary, train, wait_for};

/// A run of the small recipe with more settings, under a program that is given it as its arguments.
fn run_under(wrapper: &[&str], out: &Path, settings: &[&str]) -> Command {
    let mut command = Command::new(wrapper.first().copied().unwrap_or(env!("CARGO_BIN_EXE_evenkeel")));
    command.args(wrapper.iter().skip(1));
    if !wrapper.is_empty() {
        command.arg(env!("CARGO_BIN_EXE_evenkeel"));
    }
    command.arg("train").arg("--recipe").arg(small()).arg("--out").arg(out);
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    command
}

/// Waits for an end of that code within a time; the text on its standard error.
fn ends(mut process: Process, code: i32, within: Duration) {
    let began = Instant::now();
    let status = process.0.wait().unwrap();
    assert_eq!(status.code(), Some(code), "{status}");
    assert!(began.elapsed() < within, "it took {:?}", began.elapsed());
}

/// The steps of checkpoints that are on the disk.
fn checkpoints(out: &Path) -> Vec<u64> {
    let mut steps = Vec::new();
    for run in std::fs::read_dir(out.join("checkpoints")).into_iter().flatten().flatten() {
        for entry in std::fs::read_dir(run.path()).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap();
            steps.extend(name.strip_prefix("step-").and_then(|step| step.parse::<u64>().ok()));
        }
    }
    steps.sort_unstable();
    steps
}

#[test]
fn a_scheduler_and_a_terminal_end_a_run_with_a_checkpoint_after_its_step_and_it_goes_on_to_the_same_end() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    // Enough of them that none of two signals comes after the last, however fast the machine is.
    let begun = |out: &Path| {
        let mut command = train(out);
        command.args(["--steps", "40", "--set", "warm_start.steps=5"]);
        command
    };
    succeed(begun(&whole));
    // Under nohup, SIGHUP stays ignored.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let is_hang_up_ignored = u64::from_str_radix(ignored, 16).unwrap() & 1 == 1;
    let signals = [("TERM", 143), ("HUP", 129)].into_iter().filter(|(name, _)| *name != "HUP" || !is_hang_up_ignored);
    for (signal, code) in signals {
        let out = dir.path().join(signal);
        let process = Process::start(begun(&out));
        wait_for("a step", || count_lines(&out.join("metrics.jsonl")) >= 1);
        process.signal(signal);
        // Schedulers repeat it, later; that changes nothing.
        std::thread::sleep(Duration::from_millis(100));
        process.signal(signal);
        process.signal("TERM");
        ends(process, code, Duration::from_secs(25));
        let steps = count_lines(&out.join("metrics.jsonl")) as u64;
        assert!(steps < 40, "{signal}: it ended early");
        assert_eq!(checkpoints(&out).last(), Some(&steps), "{signal}: no step is lost");
        assert_eq!(summary(&out).unwrap()["state"], "stopped");
        succeed(resume(&out));
        assert_eq!(lines(&out), lines(&whole), "{signal}");
    }
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut process = Process::start(run_under(&["nohup"], &out, &["warm_start.steps=1", "run.steps=3"]));
    wait_for("the run", || out.join("warm_start.jsonl").exists());
    process.signal("HUP");
    assert!(process.0.wait().unwrap().success(), "it goes on to its end");
    assert_eq!(count_lines(&out.join("metrics.jsonl")), 3);
}

/// Answers of so many tokens that a step takes far longer than the grace.
const LONG_STEP: [&str; 5] = [
    "warm_start.steps=2",
    "sampling.prompts_per_step=2000",
    "sampling.min_tokens=12",
    "checkpoint.grace=2s",
    "evaluation.problems=0",
];

#[test]
fn a_step_that_does_not_fit_the_grace_is_given_up_and_the_last_whole_step_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let process = Process::start(run_under(&[], &out, &LONG_STEP));
    wait_for("the warm start", || count_lines(&out.join("warm_start.jsonl")) >= 2);
    std::thread::sleep(Duration::from_millis(300));
    process.signal("TERM");
    ends(process, 143, Duration::from_secs(6));
    assert_eq!(count_lines(&out.join("metrics.jsonl")), 0, "the step is not done");
    assert_eq!(checkpoints(&out), [0], "the state after the warm start");
    // It is a run that goes on.
    let mut command = resume(&out);
    command.args(["--set", "checkpoint.grace=60s"]);
    let process = Process::start(command);
    wait_for("the same run", || out.join("run.json").exists());
    process.kill();
}

#[test]
fn a_second_ctrl_c_ends_at_once_also_within_the_grace() {
    let dir = tempfile::tempdir().unwrap();
    for first in ["INT", "TERM"] {
        let out = dir.path().join(first);
        let settings = [&LONG_STEP[..3], &["checkpoint.grace=1h", "evaluation.problems=0"]].concat();
        let process = Process::start(run_under(&[], &out, &settings));
        wait_for("the warm start", || count_lines(&out.join("warm_start.jsonl")) >= 2);
        process.signal(first);
        std::thread::sleep(Duration::from_millis(200));
        process.signal("INT");
        ends(process, if first == "INT" { 130 } else { 143 }, Duration::from_secs(3));
    }
}
