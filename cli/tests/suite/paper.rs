//! The paper's table and figures by one command, on the small version of its runs, and from folders of runs that are
//! not as they should be.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{evenkeel, refused, succeed};

const TASKS: [&str; 2] = ["shaped", "wrong-longer"];
const RULES: [&str; 3] = ["sequence", "token", "balanced-count"];
const BENCHMARKS: [&str; 2] = ["large-sums", "small-sums"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The small version, with less of a warm start.
fn small_version(out: &Path) -> Command {
    let mut command = evenkeel(&["compare", "deploy/studies/paper-small.toml", "--quick", "--jobs", "2"]);
    let less = [
        "warm_start.steps=60",
        "learner.supervised.total_updates=60",
        "sampling.prompts_per_step=4",
        "learner.mini_batch_groups=1",
    ];
    command.args(less.iter().flat_map(|set| ["--set", set])).current_dir(root()).arg("--out").arg(out);
    command
}

/// Compares what is below a folder.
fn existing(folder: &Path, out: &Path) -> Value {
    let mut command = evenkeel(&["compare", "--json", "--out"]);
    command.arg(out).arg(folder);
    serde_json::from_slice(&succeed(command).stdout).expect("it is JSON")
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// Peak and last mean@4 and best@4 of a run's average, the mean of the benchmarks' peaks of mean@4, and the peak of
/// best@4 by draws: from its own lines.
fn columns(run: &Path) -> [f64; 6] {
    let evaluations = lines(&run.join("evaluation.jsonl"));
    let curve = |metric: &str| -> Vec<f64> {
        let average = |line: &Value| {
            BENCHMARKS.iter().map(|name| number(&line[format!("val-core/{name}/acc/{metric}")])).sum::<f64>() / 2.0
        };
        evaluations.iter().map(average).collect()
    };
    let peak = |curve: &[f64]| curve.iter().copied().fold(f64::MIN, f64::max);
    let (mean, best, drawn) = (curve("mean@4"), curve("best@4"), curve("best@4/mean"));
    let of_benchmark = |name: &&str| {
        peak(&evaluations.iter().map(|line| number(&line[format!("val-core/{name}/acc/mean@4")])).collect::<Vec<_>>())
    };
    let peaks = BENCHMARKS.iter().map(of_benchmark).sum::<f64>() / 2.0;
    [peak(&mean), peak(&best), *mean.last().unwrap(), *best.last().unwrap(), peaks, peak(&drawn)]
}

fn assert_near(found: &Value, wanted: f64, what: &str) {
    assert!((number(found) - wanted).abs() < 1e-12, "{what}: {found} is not {wanted}");
}

/// Copies a folder without what is large.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn the_small_version_gives_the_papers_table_and_figures_and_a_folder_of_its_runs_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("paper");
    succeed(small_version(&out));
    let found: Value = serde_json::from_str(&fs::read_to_string(out.join("compare.json")).unwrap()).unwrap();
    let table = &found["table_one"];
    let rows = table["rows"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| (row["task"].as_str().unwrap(), row["arm"].as_str().unwrap())).collect();
    let wanted: Vec<_> = TASKS.iter().flat_map(|task| RULES.iter().map(move |rule| (*task, *rule))).collect();
    assert_eq!(names, wanted, "the tasks, and the rules in the paper's order");
    let mut by_rule: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in rows {
        let (task, rule) = (row["task"].as_str().unwrap(), row["arm"].as_str().unwrap());
        let own = columns(&out.join(task).join(format!("{rule}-seed-0")));
        let other = &row["other_readings"];
        for (value, (mean, what)) in own.iter().zip([
            (&row["columns"]["peak_accuracy"], "peak mean@4"),
            (&row["columns"]["peak_best"], "peak best@4"),
            (&row["columns"]["last_accuracy"], "last mean@4"),
            (&row["columns"]["last_best"], "last best@4"),
            (&other["mean_of_peaks"], "mean of peaks"),
            (&other["peak_drawn"], "peak of draws"),
        ]) {
            assert_near(&mean["value"], *value, &format!("{task}, {rule}, {what}"));
            assert!(mean["interval"].is_null(), "one seed has no interval");
        }
        by_rule.entry(rule).or_default().push(own[0]);
    }
    for mean in table["over_tasks"].as_array().unwrap() {
        let values = &by_rule[mean["arm"].as_str().unwrap()];
        assert_near(&mean["columns"]["peak_accuracy"]["value"], (values[0] + values[1]) / 2.0, "over tasks");
    }

    let html = fs::read_to_string(out.join("compare.html")).unwrap();
    for figure in ["Peak against last accuracy", "Policy-gradient loss", "Length variation", "Length gap"] {
        assert!(html.contains(&format!("<figcaption><h3>{figure}</h3>")), "{figure}");
    }
    // What is drawn is what the runs have: the loss of each step.
    let csv = fs::read_to_string(out.join("compare.csv")).unwrap();
    for (task, rule) in wanted {
        for line in lines(&out.join(task).join(format!("{rule}-seed-0/metrics.jsonl"))) {
            let row = format!("{task},{rule},0,{},actor/pg_loss,{}", line["step"], number(&line["actor/pg_loss"]));
            assert!(csv.lines().any(|line| line == row), "{row}");
        }
    }
    assert!(fs::read_to_string(out.join("table-1.csv")).unwrap().starts_with("task,arm,seeds,column,value"));

    let read = existing(&out, &dir.path().join("read"));
    assert_eq!(read["table_one"], found["table_one"], "from the folder, without a plan");
    let said = read["remarks"].as_array().unwrap();
    assert!(said.len() == 1 && said[0].as_str().unwrap().contains("data.trails.after_right"), "{said:?}");

    faulty_folders_are_compared_as_far_as_they_go(&out, dir.path());
}

/// Directories without a run, unfinished runs and evaluations, benchmarks that a run lacks, and a second run.
fn faulty_folders_are_compared_as_far_as_they_go(out: &Path, dir: &Path) {
    let runs = dir.join("runs");
    for (task, rule) in TASKS.iter().flat_map(|task| RULES.map(|rule| (task, rule))) {
        copy(&out.join(task).join(format!("{rule}-seed-0")), &runs.join(format!("{task}-{rule}")));
    }
    copy(&out.join("shaped/token-seed-0"), &runs.join("shaped-token-again"));
    fs::create_dir_all(runs.join("notes/old")).unwrap();
    let truncate = |run: &str, file: &str, keep: usize| {
        let path = runs.join(run).join(file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.lines().take(keep).map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    };
    // Two of four steps; two of three evaluations; one of two benchmarks.
    truncate("shaped-sequence", "metrics.jsonl", 2);
    truncate("shaped-balanced-count", "evaluation.jsonl", 2);
    let path = runs.join("wrong-longer-token/evaluation.jsonl");
    let without: String = lines(&path)
        .into_iter()
        .map(|mut line| {
            line.as_object_mut().unwrap().retain(|name, _| !name.contains("large-sums"));
            format!("{line}\n")
        })
        .collect();
    fs::write(&path, without).unwrap();

    let found = existing(&runs, &dir.join("faulty"));
    let remarks = found["remarks"].to_string();
    for words in [
        "notes holds no run",
        "shaped-token-again, a second run of token on trails with seed 0",
        "shaped-balanced-count, which lacks the evaluations of steps 4",
        "the benchmark large-sums, which ",
    ] {
        assert!(remarks.contains(words), "{words}: {remarks}");
    }
    let left_out = found["table_one"]["left_out"].to_string();
    assert!(left_out.contains("sequence on trails: no run has finished"), "{left_out}");
    assert!(left_out.contains("trails is in no mean over tasks: it lacks"), "{left_out}");
    let rows = found["table_one"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "token on one task, three rules on the other");
    let failed = &found["tasks"][0]["arms"].to_string();
    assert!(failed.contains("ended after 2 of 4 steps"), "{failed}");

    let mut command = evenkeel(&["compare", "--out"]);
    command.arg(dir.join("none")).arg(runs.join("notes"));
    let said = refused(command);
    assert!(said.contains("notes\", which holds no run, allowed: recipes, a study, or directories of runs"), "{said}");
}
