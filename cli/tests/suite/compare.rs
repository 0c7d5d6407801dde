//! Settings compared over seeds: what is run, what is shared, and that the result depends on nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Process, count_lines, evenkeel, lines, refused, small, succeed, train, wait_for};

const RULES: &str = "learner.objective.aggregation=token,balanced";

/// Two rules with two seeds, three steps each.
fn compare(out: &Path, jobs: &str) -> Command {
    let mut command = evenkeel(&["compare"]);
    command.arg(small()).args(["--vary", RULES, "--seeds", "2", "--jobs", jobs]);
    command.args([
        "--set",
        "run.steps=3",
        "--set",
        "warm_start.steps=30",
        "--set",
        "learner.supervised.total_updates=30",
    ]);
    command.arg("--out").arg(out);
    command
}

fn compared(out: &Path) -> Value {
    let text = std::fs::read_to_string(out.join("compare.json")).expect("it was written");
    serde_json::from_str(&text).expect("it is JSON")
}

#[test]
fn a_comparison_is_the_same_with_any_number_of_jobs_and_its_runs_are_those_of_train() {
    let dir = tempfile::tempdir().unwrap();
    let [one, two, direct] = ["one", "two", "direct"].map(|name| dir.path().join(name));
    let output = succeed(compare(&one, "1"));
    let begun = String::from_utf8(output.stderr).unwrap();
    assert!(begun.contains(&format!("runs and results go to {}; ", one.display())), "{begun}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("token") && said.contains("balanced") && said.contains("seeds"), "{said}");
    succeed(compare(&two, "2"));
    assert_eq!(compared(&one), compared(&two));
    assert_eq!(compared(&one)["tasks"][0]["arms"].as_array().unwrap().len(), 2);

    let mut command = train(&direct);
    let settings = [
        "run.seed=1",
        "run.steps=3",
        "warm_start.steps=30",
        "learner.supervised.total_updates=30",
        "learner.objective.aggregation=balanced",
        "learner.compute.threads=1",
        "engine.threads=1",
    ];
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    succeed(command);
    let mut forked = lines(&one.join("small/balanced-seed-1"));
    forked.iter_mut().for_each(|line| {
        line.remove("training/forked_at_step");
    });
    assert_eq!(forked, lines(&direct), "it starts from a shared warm start, which is its own to the bit");
    let csv = std::fs::read_to_string(one.join("compare.csv")).unwrap();
    assert_eq!(csv.lines().filter(|line| line.starts_with("small,token,0,") && line.contains(",reward,")).count(), 3);
}

#[test]
fn a_killed_comparison_goes_on_and_leaves_no_run_behind() {
    let dir = tempfile::tempdir().unwrap();
    let [whole, killed] = ["whole", "killed"].map(|name| dir.path().join(name));
    succeed(compare(&whole, "2"));
    let metrics = |run: &str| killed.join("small").join(run).join("metrics.jsonl");
    let warm_start = killed.join("small/warm-start-seed-0/warm_start.jsonl");
    let moments: [&dyn Fn() -> bool; 3] =
        [&|| count_lines(&warm_start) >= 10, &|| count_lines(&metrics("token-seed-0")) >= 1, &|| {
            count_lines(&metrics("balanced-seed-1")) >= 2
        }];
    for moment in moments {
        let process = Process::start(compare(&killed, "2"));
        wait_for("the moment", moment);
        process.kill();
    }
    // It waits for runs of the killed process that have not ended yet.
    succeed(compare(&killed, "2"));
    assert_eq!(but_for_unverified(compared(&killed)), but_for_unverified(compared(&whole)));
}

/// Answers that an interrupted evaluation has kept are not audited when it goes on, and the comparison says so.
pub(crate) fn but_for_unverified(mut compared: Value) -> Value {
    match &mut compared {
        Value::Object(fields) => {
            fields.remove("unverified");
            fields.values_mut().for_each(|value| *value = but_for_unverified(value.take()));
        }
        Value::Array(values) => {
            let says_so = |value: &Value| value["text"].as_str().is_some_and(|text| text.contains("were not verified"));
            values.retain(|value| !says_so(value));
            values.iter_mut().for_each(|value| *value = but_for_unverified(value.take()));
        }
        _ => {}
    }
    compared
}

/// Two steps of the small recipe.
fn run(out: PathBuf, settings: &[&str]) -> PathBuf {
    let mut command = train(&out);
    command.args(["--steps", "2", "--set", "warm_start.steps=0"]);
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    succeed(command);
    out
}

#[test]
fn runs_that_exist_are_compared_where_they_were_asked_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, settings: &[&str]| run(dir.path().join(name), settings);
    let token = run("token", &["learner.objective.aggregation=token"]);
    let balanced = run("balanced", &["learner.objective.aggregation=balanced"]);
    let other = run("other", &["learner.objective.aggregation=token", "evaluation.problems=8"]);
    let compare = |runs: &[&PathBuf], out: &str| {
        let mut command = evenkeel(&["compare", "--out"]);
        command.arg(dir.path().join(out)).args(runs);
        command
    };
    let said = String::from_utf8(succeed(compare(&[&token, &balanced], "c")).stdout).unwrap();
    assert!(said.contains("token") && said.contains("balanced"), "{said}");
    let said = refused(compare(&[&balanced, &other], "d"));
    assert!(said.contains("evaluation.problems") && said.contains('8'), "{said}");
    let said = refused(compare(&[&token, &token], "d"));
    assert!(said.contains("is given twice, allowed: each run once"), "{said}");
    let mut command = compare(&[&token], "d");
    command.args(["--vary", RULES]);
    assert!(refused(command).contains("--vary is given, allowed: absent with existing runs"));
    let mut command = compare(&[&token], "d");
    command.arg("arithmetic");
    assert!(refused(command).contains("which holds no run, among runs"));
}

#[test]
fn a_model_is_what_its_folder_has_wherever_it_lies() {
    let dir = tempfile::tempdir().unwrap();
    let [here, there, other] = [("here", 3), ("there", 3), ("other", 4)].map(|(name, seed)| {
        let folder = dir.path().join(name);
        let mut command = evenkeel(&["model", "--recipe"]);
        command.arg(small()).args(["--set", &format!("run.seed={seed}"), "--out"]).arg(&folder);
        succeed(command);
        format!("model.path={}", folder.display())
    });
    let sums = "data.kind=arithmetic";
    let token = run(dir.path().join("token"), &["learner.objective.aggregation=token", sums, &here]);
    let balanced = run(dir.path().join("balanced"), &["learner.objective.aggregation=balanced", sums, &there]);
    let another = run(dir.path().join("another"), &["learner.objective.aggregation=balanced", sums, &other]);
    let compare = |runs: [&PathBuf; 2]| {
        let mut command = evenkeel(&["compare", "--out"]);
        command.arg(dir.path().join("compared")).args(runs);
        command
    };
    let tasks = || {
        let found: Value =
            serde_json::from_str(&std::fs::read_to_string(dir.path().join("compared/compare.json")).unwrap()).unwrap();
        found["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["task"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    succeed(compare([&token, &balanced]));
    assert_eq!(tasks(), ["arithmetic"], "the same model in another place");
    succeed(compare([&token, &another]));
    assert_eq!(tasks(), ["here on arithmetic", "other on arithmetic"], "another model is another task");
}

#[test]
fn what_cannot_be_compared_is_refused_before_any_run() {
    let dir = tempfile::tempdir().unwrap();
    let said = |arguments: &[&str]| {
        let mut command = evenkeel(&["compare", "--out"]);
        command.arg(dir.path().join("c")).arg(small()).args(arguments);
        refused(command)
    };
    assert!(said(&[]).contains("--vary is absent, required: KEY=VALUE,VALUE"));
    assert!(said(&["--vary", "learner.objective.agregation=token,balanced"]).contains("nearest allowed"));
    assert!(said(&["--vary", RULES, "--primary", "best"]).contains("last-accuracy, peak-accuracy"));
    assert!(!dir.path().join("c").exists());
}
