//! Studies: what one name runs, that it can be killed, and that its tasks are what they claim to be.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::compare::but_for_unverified;
use crate::support::{Process, count_lines, evenkeel, refused, succeed, wait_for};

fn small_study() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/study.toml")
}

fn study(out: &Path) -> Command {
    let mut command = evenkeel(&["compare", "--jobs", "2", "--out"]);
    command.arg(out).arg(small_study());
    command
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("it was written");
    serde_json::from_str(&text).expect("it is JSON")
}

fn labels(task: &Value) -> Vec<&str> {
    task["arms"].as_array().unwrap().iter().map(|arm| arm["label"].as_str().unwrap()).collect()
}

#[test]
fn a_study_that_is_killed_goes_on_to_the_same_result() {
    let dir = tempfile::tempdir().unwrap();
    let [whole, killed] = ["whole", "killed"].map(|name| dir.path().join(name));
    succeed(study(&whole));
    let lines = |run: &str, file: &str| count_lines(&killed.join(run).join(file));
    let moments: [&dyn Fn() -> bool; 3] = [
        &|| lines("equal-narrow/warm-start-seed-0", "warm_start.jsonl") >= 5,
        &|| lines("equal-narrow/token-seed-0", "metrics.jsonl") >= 1,
        &|| lines("equal-varied/vl-norm-seed-1", "metrics.jsonl") >= 1,
    ];
    for moment in moments {
        let process = Process::start(study(&killed));
        wait_for("the moment", moment);
        process.kill();
    }
    succeed(study(&killed));
    for file in ["compare.json", "equal-narrow/compare.json", "equal-varied/compare.json"] {
        let [killed, whole] = [&killed, &whole].map(|run| but_for_unverified(json(&run.join(file))));
        assert_eq!(killed, whole, "{file}");
    }
    let all = json(&whole.join("compare.json"));
    let tasks: Vec<_> = all["tasks"].as_array().unwrap().iter().map(|task| task["task"].as_str().unwrap()).collect();
    assert_eq!(tasks, ["equal-narrow", "equal-varied"]);
    assert_eq!(labels(&all["tasks"][0]), ["token", "vl-norm"]);
    assert_eq!(labels(&all["tasks"][1]), ["balanced-count", "token", "vl-norm"]);
    assert_eq!(all["across_tasks"][0]["arms"].as_array().unwrap().len(), 2, "the arms that all tasks have");
    for folder in [&whole, &whole.join("equal-narrow"), &whole.join("equal-varied")] {
        let text = std::fs::read_to_string(folder.join("compare.md")).unwrap();
        assert!(text.contains("## What can and what cannot be concluded") && text.contains("| token |"), "{text}");
        assert!(folder.join("compare.html").exists());
    }
}

#[test]
fn the_quick_version_of_the_four_regimes_runs_every_arm_and_reaches_no_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = evenkeel(&["compare", "studies/four-regimes", "--quick", "--json", "--out"]);
    command.arg(dir.path());
    let said = succeed(command).stdout;
    let found: Value = serde_json::from_slice(&said).expect("it is JSON");
    let rules = ["balanced", "batch-token", "sequence", "token", "vl-norm"];
    for task in found["tasks"].as_array().unwrap() {
        let mut wanted = rules.to_vec();
        if task["task"] == "shaped" {
            wanted.insert(1, "balanced-count");
            wanted.sort_unstable();
        }
        assert_eq!(labels(task), wanted);
        for arm in task["arms"].as_array().unwrap() {
            assert_eq!((arm["seeds"].as_array().unwrap().len(), arm["failed"].as_array().unwrap().len()), (2, 0));
            let measures: Vec<_> = arm["measures"]
                .as_array()
                .unwrap()
                .iter()
                .map(|measure| measure["measure"].as_str().unwrap())
                .collect();
            for wanted in ["last_accuracy", "peak_accuracy", "accuracy_drop"] {
                assert!(measures.contains(&wanted), "{measures:?}");
            }
        }
        let pairs = task["pairs"].as_array().unwrap();
        assert!(!pairs.is_empty());
        assert!(pairs.iter().all(|pair| pair["finding"].to_string().contains("too_few_seeds")), "{pairs:?}");
    }
    assert_eq!(found["tasks"].as_array().unwrap().len(), 5);
}

#[test]
fn what_is_no_study_is_refused_before_any_run() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("c");
    let said = |arguments: &[&str]| {
        let mut command = evenkeel(&["compare", "--out"]);
        command.arg(&out).args(arguments);
        refused(command)
    };
    assert!(said(&["studies/four-regime"]).contains("nearest: studies/four-regimes"));
    assert!(said(&["studies/four-regimes", "arithmetic"]).contains("a study alone"));
    assert!(said(&["arithmetic", "--quick"]).contains("--quick is given, allowed: absent without a study"));
    let written = |text: &str| {
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, text).unwrap();
        said(&[path.to_str().unwrap()])
    };
    let vary = "[vary]\nlearner.objective.aggregation = [\"token\", \"balanced\"]\n";
    assert!(written(&format!("[study]\nrecipes = [\"arithmetik\"]\n{vary}")).contains("arithmetik"));
    let error =
        written("[study]\nrecipes = [\"arithmetic\"]\n[vary]\nlearner.objective.agregation = [\"token\", \"a\"]");
    assert!(error.contains("nearest allowed: `learner.objective.aggregation`"), "{error}");
    let error = written(&format!("[study]\nrecipes = [\"trails/shaped\"]\n{vary}[set]\nsampling.max_tokens = 40"));
    assert!(error.contains("overlong_buffer_tokens"), "{error}");
    assert!(!out.exists());
}

/// Length variation and gap of the first step after the warm start, and its mean reward.
fn after_warm_start(regime: &str, folder: &Path) -> (f64, f64, f64) {
    let out = folder.join(regime);
    let mut command = evenkeel(&["train", "--recipe"]);
    command.arg(format!("trails/{regime}")).arg("--out").arg(&out);
    // One step of many groups, for a measurement with little noise.
    let settings =
        ["run.steps=1", "sampling.prompts_per_step=192", "learner.mini_batch_groups=0", "evaluation.problems=8"];
    command
        .args(settings.iter().chain(&["page.listen=off", "engine.threads=1"]).flat_map(|setting| ["--set", setting]));
    succeed(command);
    let text = std::fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let value = |name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{name} in {line}"));
    (value("aggregation/length_cv"), value("aggregation/length_gap"), value("critic/score/mean"))
}

#[test]
fn every_regime_is_where_it_claims_to_be_after_its_warm_start() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let regimes = ["wrong-longer", "wrong-shorter", "equal-varied", "equal-narrow"];
    let measured = std::thread::scope(|scope| {
        let running = regimes.map(|regime| scope.spawn(move || after_warm_start(regime, folder)));
        running.map(|thread| thread.join().unwrap())
    });
    for (regime, (_, _, accuracy)) in regimes.iter().zip(&measured) {
        assert!((0.2..0.65).contains(accuracy), "{regime}: both signs in its groups, and room to grow: {accuracy}");
    }
    let [longer, shorter, varied, narrow] = measured.map(|(variation, gap, _)| (variation, gap));
    assert!(longer.1 > 5.0 && shorter.1 < -5.0, "gaps: {longer:?}, {shorter:?}");
    assert!(varied.1.abs() < 4.0 && narrow.1.abs() < 1.0, "equal lengths: {varied:?}, {narrow:?}");
    assert!(varied.0 > 0.35 && narrow.0 < 0.1, "variation: {varied:?}, {narrow:?}");
    assert!(varied.0 > 1.4 * longer.0 && varied.0 > 1.4 * shorter.0, "variation: {varied:?}, {longer:?}, {shorter:?}");
}
