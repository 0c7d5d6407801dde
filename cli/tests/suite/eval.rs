//! `evenkeel eval` and `evenkeel show`: accuracies that were scripted, interrupted evaluations, answers for people.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::scripted_engine::ScriptedEngine;
use crate::support::{Process, evenkeel, refused, succeed, wait_for, written_model};

/// Answers by rule: one of four to `1+0` is right, none to `1+1`, all to `2+N`.
fn scripted(prompt: &str, n: usize) -> String {
    let sum: u32 = prompt.trim_end_matches("=\n").split('+').filter_map(|number| number.parse::<u32>().ok()).sum();
    let right = prompt.starts_with('2') || (prompt == "1+0=\n" && n % 4 == 1);
    format!("so \\boxed{{{}}}", if right { sum } else { 77 })
}

/// A benchmark of sums `a + 0`, `a + 1`, ... as the option takes it.
pub(crate) fn sums(folder: &Path, name: &str, a: usize, count: usize) -> String {
    let row = |b: usize| json!({"id": format!("{a}+{b}"), "prompt": format!("{a}+{b}=\n"), "answer": a + b});
    let path: PathBuf = folder.join(format!("{name}.jsonl"));
    std::fs::write(&path, (0..count).map(|b| format!("{}\n", row(b))).collect::<String>()).unwrap();
    format!("{name}={}", path.display())
}

pub(crate) fn eval(model: &Path, output: &Path, benchmarks: &[&str], more: &[&str]) -> Command {
    let mut command = evenkeel(&["eval", "--samples", "4", "--max-tokens", "60", "--set", "reward.code.sandbox=off"]);
    command.arg("--model").arg(model).arg("--output").arg(output).args(more);
    for benchmark in benchmarks {
        command.args(["--benchmark", benchmark]);
    }
    command
}

fn text(command: Command) -> String {
    String::from_utf8(succeed(command).stdout).unwrap()
}

fn show(folder: &Path, more: &[&str]) -> Command {
    let mut command = evenkeel(&["show"]);
    command.arg(folder).args(more);
    command
}

#[test]
fn accuracies_are_those_of_the_script_and_a_person_can_read_every_answer() {
    let dir = tempfile::tempdir().unwrap();
    let model = written_model(dir.path());
    let output = dir.path().join("answers");
    let engine = ScriptedEngine::start(scripted, Duration::ZERO);
    let ones = sums(dir.path(), "ones", 1, 2);
    let twos = sums(dir.path(), "twos", 2, 1);
    let url = engine.url();
    let command = |more: &[&str]| eval(&model, &output, &[&ones, &twos], &[&["--engine", &url], more].concat());
    let line: Value = serde_json::from_str(&text(command(&["--json"]))).unwrap();
    let known = [
        ("val-core/ones/acc/mean@4", 0.125),
        ("val-core/ones/acc/best@4", 0.5),
        ("val-core/ones/acc/maj@4", 0.0),
        ("val-core/twos/acc/mean@4", 1.0),
        ("val-core/average/acc/mean@4", 0.5625),
        ("val-aux/ones/acc/mean@4/standard_error", 0.125),
    ];
    for (name, value) in known {
        assert_eq!(line[name].as_f64(), Some(value), "{name}: {line}");
    }
    assert_eq!(engine.asked(), 12);
    let table = text(command(&[]));
    assert!(table.contains("ones") && table.contains("12.5 ± 12.5") && table.contains("average"), "{table}");
    assert_eq!(engine.asked(), 12, "what was answered is not asked again");

    let wrong = text(show(&output, &["--benchmark", "ones", "--problem", "1+0", "--wrong"]));
    assert_eq!(wrong.matches("──── sample").count(), 3, "{wrong}");
    assert_eq!(wrong.matches("1+0=").count(), 1, "a prompt is shown once: {wrong}");
    for words in [
        "ones · problem 1 · 1+0",
        "so \\boxed{77}",
        "gold      1",
        "verdict   incorrect, score 0",
        "reason    different_number: the gold answer is 1",
    ] {
        assert!(wrong.contains(words), "{words}: {wrong}");
    }
    assert_eq!(text(show(&output, &["--right"])).matches("──── sample").count(), 5);
    assert_eq!(text(show(&output, &["--right", "--wrong", "--limit", "7"])).matches("──── sample").count(), 7);
    let rows = text(show(&output, &["--json", "--benchmark", "twos"]));
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((rows.len(), &rows[0]["answer"], &rows[0]["verdict"]), (4, &json!("2"), &json!("correct")));
    assert!(refused(show(&output, &["--benchmark", "x"])).contains("--benchmark is \"x\", allowed: ones, twos"));
    let other = refused(eval(&model, &output, &[&ones], &["--engine", &url]));
    assert!(other.contains("has answers to another evaluation (with benchmark `twos`), allowed"), "{other}");
}

#[test]
fn an_evaluation_that_was_killed_goes_on_with_the_same_command() {
    let dir = tempfile::tempdir().unwrap();
    let model = written_model(dir.path());
    let output = dir.path().join("answers");
    let engine = ScriptedEngine::start(scripted, Duration::from_millis(20));
    let twos = sums(dir.path(), "twos", 2, 60);
    let url = engine.url();
    let few = ["--engine", &url, "--json", "--set", "services.max_rollouts=4"];
    let command = || eval(&model, &output, &[&twos], &few);
    let process = Process::start(command());
    wait_for("some answers", || engine.asked() >= 80);
    process.kill();
    let before = engine.asked();
    let kept = text(show(&output, &["--json"])).lines().count();
    assert!((4..240).contains(&kept), "{kept}");
    let line: Value = serde_json::from_str(&text(command())).unwrap();
    assert_eq!(line["val-core/twos/acc/mean@4"].as_f64(), Some(1.0));
    let again = engine.asked() - before;
    // A request that was on its way when the process was killed may have been counted later.
    assert!((240 - kept..=240 - kept + 4).contains(&again), "{again} of {} that were missing", 240 - kept);
    assert_eq!(text(show(&output, &["--json"])).lines().count(), 240);
}

#[test]
fn without_an_engine_the_embedded_one_answers() {
    let dir = tempfile::tempdir().unwrap();
    let model = written_model(dir.path());
    let output = dir.path().join("answers");
    let ones = sums(dir.path(), "ones", 1, 2);
    let line: Value = serde_json::from_str(&text(eval(&model, &output, &[&ones], &["--json"]))).unwrap();
    assert!(line["val-core/ones/acc/mean@4"].as_f64().is_some(), "{line}");
    let answers = text(show(&output, &["--json"]));
    assert!(answers.lines().count() == 8 && answers.contains("\"verdict\":\"no_answer\""), "{answers}");
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    let dir = tempfile::tempdir().unwrap();
    let model = written_model(dir.path());
    let output = dir.path().join("answers");
    let engine = ScriptedEngine::start(scripted, Duration::ZERO);
    let twos = sums(dir.path(), "twos", 2, 300);
    succeed(eval(&model, &output, &[&twos], &["--engine", &engine.url()]));
    let mut reading = show(&output, &[]).spawn().expect("the binary starts");
    let mut line = String::new();
    BufReader::new(reading.stdout.take().expect("a pipe")).read_line(&mut line).unwrap();
    assert!(line.contains("twos · problem 1"), "{line}");
    let ended = reading.wait_with_output().expect("it ends");
    assert!(ended.status.success() && ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn what_cannot_be_evaluated_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let model = written_model(dir.path());
    let output = dir.path().join("answers");
    let ones = sums(dir.path(), "ones", 1, 2);
    let cases: [(&[&str], &[&str], &str); 4] = [
        (&[], &[], "--benchmark is absent, required: NAME=PATH"),
        (&["x=/nowhere/x.jsonl"], &[], "/nowhere/x.jsonl"),
        (&[&ones, &ones], &[], "`evaluation.benchmarks[1].name` is \"ones\" in "),
        (&[&ones], &["--temperature", "0"], "`evaluation.samples` is 4 in "),
    ];
    for (benchmarks, more, words) in cases {
        let error = refused(eval(&model, &output, benchmarks, more));
        assert!(error.contains(words), "{error}");
    }
    let error = refused(show(dir.path(), &[]));
    assert!(error.contains("is without answers, allowed: a run that was evaluated"), "{error}");
}
