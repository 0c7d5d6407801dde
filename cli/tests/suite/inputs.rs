//! A run that is resumed reads what it was begun with: each of its inputs, changed, moved and touched.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Process, count_lines, evenkeel, lines, refused, resume, small, succeed, summary, wait_for, written_model,
};

/// A folder with a model, data files, and a run of one step on them.
struct Place {
    dir: tempfile::TempDir,
    model: PathBuf,
    data: PathBuf,
    run: PathBuf,
}

/// Sums as rows, one for each first number.
fn sums(first: std::ops::Range<u32>) -> String {
    first.fold(String::new(), |mut rows, a| {
        writeln!(rows, "{{\"prompt\": \"{a}+11=\", \"answer\": \"{}\"}}", a + 11).unwrap();
        rows
    })
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let model = written_model(dir.path());
        let data = dir.path().join("data");
        let run = dir.path().join("run");
        std::fs::create_dir(&data).unwrap();
        for (name, rows) in [("train", 11..43), ("held-out", 50..60), ("benchmark", 60..70)] {
            std::fs::write(data.join(name).with_extension("jsonl"), sums(rows)).unwrap();
        }
        let place = Self { dir, model, data, run };
        succeed(place.train());
        place
    }

    fn train(&self) -> Command {
        let mut command = evenkeel(&["train", "--steps", "1", "--recipe"]);
        command.arg(small()).arg("--out").arg(&self.run).args(self.settings(&self.model, &self.data));
        command
    }

    /// The settings that name files, and small numbers of everything.
    fn settings(&self, model: &Path, data: &Path) -> Vec<String> {
        let file = |name: &str| data.join(name).display().to_string();
        let settings = [
            format!("model.path={}", model.display()),
            format!("data.files=[{:?}]", file("train.jsonl")),
            format!("data.held_out_files=[{:?}]", file("held-out.jsonl")),
            format!("evaluation.benchmarks=[{{files=[{:?}]}}]", file("benchmark.jsonl")),
            "evaluation.problems=2".to_owned(),
            "warm_start.steps=0".to_owned(),
            "sampling.group_size=2".to_owned(),
            "sampling.max_tokens=6".to_owned(),
            "shaping.overlong_buffer_tokens=0".to_owned(),
            "checkpoint.every=1".to_owned(),
            "checkpoint.keep=1".to_owned(),
            "learner.objective.kl_coefficient=0.01".to_owned(),
        ];
        settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]).collect()
    }

    fn resume(&self, steps: u64) -> Command {
        let mut command = resume(&self.run);
        command.args(["--steps", &steps.to_string()]);
        command
    }

    /// The folder of its only checkpoint.
    fn checkpoint(&self) -> PathBuf {
        let folders = std::fs::read_dir(self.run.join("checkpoints/run")).unwrap();
        let found = folders.map(|entry| entry.unwrap().path()).find(|path| path.join("state.json").exists());
        found.expect("the run wrote a checkpoint")
    }

    /// What the run says of itself and its inputs.
    fn records(&self) -> BTreeMap<&'static str, String> {
        ["run.json", "config.toml", "inputs.json", "data.json"]
            .map(|name| (name, std::fs::read_to_string(self.run.join(name)).unwrap()))
            .into()
    }
}

/// Changes the last digit of a file.
fn change_last_digit(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let last = bytes.iter().rposition(u8::is_ascii_digit).unwrap();
    bytes[last] = b'0' + (bytes[last] - b'0' + 1) % 10;
    std::fs::write(path, bytes).unwrap();
}

/// A way of changing a file.
type Change = fn(&Path);

fn replace(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from} in {}", path.display());
    std::fs::write(path, text.replacen(from, to, 1)).unwrap();
}

fn rows(path: &Path, change: impl FnOnce(&mut Vec<String>)) {
    let mut rows: Vec<String> = std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect();
    change(&mut rows);
    std::fs::write(path, rows.join("\n") + "\n").unwrap();
}

#[test]
fn a_resume_names_whatever_changed_and_leaves_the_run_as_it_was() {
    let place = Place::new();
    let before = place.records();
    let train = place.data.join("train.jsonl");
    let held_out = place.data.join("held-out.jsonl");
    let [weights, tokenizer, config] =
        ["model.safetensors", "tokenizer.json", "config.json"].map(|name| place.model.join(name));
    let changes: [(&str, &Path, Change); 10] = [
        ("a row more", &train, |path| rows(path, |rows| rows.push(rows[0].replace("11+11=", "1+2=")))),
        ("another gold answer", &train, |path| replace(path, "\"answer\": \"30\"", "\"answer\": \"31\"")),
        ("another order", &train, |path| rows(path, |rows| rows.swap(0, 1))),
        ("three rows", &train, |path| rows(path, |rows| rows.truncate(3))),
        ("nothing that can be read", &train, |path| std::fs::write(path, "nothing\n").unwrap()),
        ("problems that were trained on", &held_out, |path| std::fs::write(path, sums(11..20)).unwrap()),
        ("a benchmark", &place.data.join("benchmark.jsonl"), |path| {
            replace(path, "\"answer\": \"72\"", "\"answer\": \"7\"")
        }),
        ("a tensor", &weights, |path| {
            let mut bytes = std::fs::read(path).unwrap();
            // The lowest bit of the last number.
            let at = bytes.len() - 4;
            bytes[at] ^= 1;
            std::fs::write(path, bytes).unwrap();
        }),
        ("a token", &tokenizer, |path| replace(path, "\"a\"", "\"\u{e4}\"")),
        ("a number of the configuration", &config, |path| replace(path, "\"rope_theta\": 1", "\"rope_theta\": 2")),
    ];
    for (what, path, change) in changes {
        let original = std::fs::read(path).unwrap();
        change(path);
        let said = refused(place.resume(2));
        let name = if what == "a tensor" { "weights" } else { path.file_name().unwrap().to_str().unwrap() };
        assert!(
            said.contains("inputs of the run have changed since it began") && said.contains(name),
            "{what}: {said}"
        );
        assert_eq!(said.matches("sha256:").count(), 2, "{what}: both digests: {said}");
        assert_eq!(place.records(), before, "{what}");
        std::fs::write(path, original).unwrap();
    }
    let template = place.model.join("chat_template.jinja");
    std::fs::write(&template, "{{ messages[0].content }}").unwrap();
    let said = refused(place.resume(2));
    assert!(said.contains("chat_template.jinja of the model") && said.contains("is new, with sha256:"), "{said}");
    std::fs::remove_file(template).unwrap();
    // Everything is as it was, if not written by the same hand at the same time.
    succeed(place.resume(2));
    assert_eq!(summary(&place.run).unwrap()["accepted_changes"], serde_json::Value::Null);
}

#[test]
fn what_was_moved_is_the_same_and_what_was_accepted_is_written_down() {
    let place = Place::new();
    let [model, data] = ["elsewhere", "other-data"].map(|name| place.dir.path().join(name));
    std::fs::rename(&place.model, &model).unwrap();
    std::fs::rename(&place.data, &data).unwrap();
    let said = refused(place.resume(2));
    assert!(said.contains("No such file") || said.contains("config.json"), "{said}");
    let mut moved = place.resume(2);
    moved.args(place.settings(&model, &data));
    succeed(moved);

    replace(&data.join("train.jsonl"), "\"answer\": \"30\"", "\"answer\": \"31\"");
    let said = refused(place.resume(3));
    assert!(said.contains("train.jsonl has sha256:") && said.contains("--accept-changed-inputs"), "{said}");
    let mut accepting = place.resume(3);
    accepting.arg("--accept-changed-inputs");
    let said = String::from_utf8(succeed(accepting).stderr).unwrap();
    assert!(said.contains("continues with a changed input: data file"), "{said}");
    let accepted = &summary(&place.run).unwrap()["accepted_changes"][0];
    assert_eq!(accepted["step"], 2);
    assert!(accepted["changes"][0].as_str().unwrap().contains("train.jsonl has sha256:"), "{accepted}");
    let report = std::fs::read_to_string(place.run.join("report.html")).unwrap();
    assert!(report.contains("After step 2 it continued with changed inputs"));
    // From then on that is what the run reads.
    succeed(place.resume(4));
    assert_eq!(count_lines(&place.run.join("metrics.jsonl")), 4);

    // A run that is forked from it says what it reads that the other one did not.
    replace(&data.join("held-out.jsonl"), "\"answer\": \"61\"", "\"answer\": \"6\"");
    let fork = place.dir.path().join("fork");
    let mut forking = evenkeel(&["train", "--steps", "5", "--from"]);
    forking.arg(&place.run).arg("--out").arg(&fork);
    let said = String::from_utf8(succeed(forking).stderr).unwrap();
    assert!(
        said.contains("and with other inputs: evaluation file") && said.contains("held-out.jsonl has sha256:"),
        "{said}"
    );
    let run = std::fs::read_to_string(fork.join("run.json")).unwrap();
    assert!(run.contains("\"changed_inputs\"") && run.contains("held-out.jsonl"), "{run}");
}

#[test]
fn lines_and_the_state_of_a_checkpoint_that_were_changed_are_named() {
    let place = Place::new();
    for name in ["metrics.jsonl", "prompts.jsonl", "evaluation.jsonl"] {
        let path = place.run.join(name);
        let original = std::fs::read(&path).unwrap();
        change_last_digit(&path);
        // What was written after the checkpoint is written again.
        if name == "evaluation.jsonl" {
            std::fs::write(&path, &original).unwrap();
            rows(&path, |rows| rows[0] = rows[0].replacen("{\"", "{ \"", 1));
        }
        let said = refused(place.resume(2));
        assert!(said.contains(&format!("{name} line 1 is not what the run wrote (bytes 0 to ")), "{said}");
        std::fs::write(&path, original).unwrap();
    }
    let state = place.checkpoint().join("state.json");
    let original = std::fs::read(&state).unwrap();
    replace(&state, "\"steps\": 1", "\"steps\": 2");
    let said = refused(place.resume(2));
    assert!(said.contains("state.json: was changed after it was written"), "{said}");
    std::fs::write(&state, original).unwrap();
    change_last_digit(&place.run.join("metrics.jsonl"));
    let mut accepting = place.resume(2);
    accepting.arg("--accept-changed-inputs");
    succeed(accepting);
    let accepted = &summary(&place.run).unwrap()["accepted_changes"][0]["changes"][0];
    assert!(accepted.as_str().unwrap().contains("metrics.jsonl line 1 is not what the run wrote"), "{accepted}");
}

#[test]
fn a_refused_resume_changes_nothing_and_names_the_setting() {
    let place = Place::new();
    succeed(place.resume(3));
    let before = place.records();
    let all = lines(&place.run);
    let said = refused(place.resume(1));
    assert!(said.contains("error: run.steps is 1, allowed: at least 3, the steps that are done\n"), "{said}");
    let mut other = place.resume(4);
    other.env("EVENKEEL__SAMPLING__GROUP_SIZE", "4");
    let said = refused(other);
    assert!(
        said.contains("`sampling.group_size` is 4 in ") && said.contains("EVENKEEL__SAMPLING__GROUP_SIZE"),
        "{said}"
    );
    assert!(said.contains("the run has 2"), "{said}");
    assert_eq!((place.records(), lines(&place.run)), (before, all));
    // As the message of a run that ended says to.
    succeed(resume(&place.run));
}

#[test]
fn a_pipe_in_the_place_of_an_input_is_refused_and_not_waited_for() {
    let place = Place::new();
    let files = [
        place.data.join("train.jsonl"),
        place.model.join("tokenizer.json"),
        place.run.join("metrics.jsonl"),
        place.run.join("config.toml"),
        place.run.join(".lock"),
        place.checkpoint().join("state.json"),
    ];
    for path in files {
        let kept = path.with_extension("kept");
        std::fs::rename(&path, &kept).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let said = refused(place.resume(2));
        let name = path.file_name().unwrap().to_str().unwrap();
        let allowed = if name == "state.json" { "a checkpoint below" } else { "regular file" };
        assert!(said.contains(name) && said.contains(allowed), "{name}: {said}");
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(&kept, &path).unwrap();
    }
}

#[test]
fn a_run_whose_folder_is_moved_or_whose_lock_is_deleted_ends_and_can_be_resumed() {
    let place = Place::new();
    let metrics = place.run.join("metrics.jsonl");
    let log = place.dir.path().join("log");
    let said = || std::fs::read_to_string(&log).unwrap();
    let mut process = Process::start_logging(place.resume(100_000), &log);
    wait_for("a step", || count_lines(&metrics) >= 3);
    std::fs::remove_file(place.run.join(".lock")).unwrap();
    // Nobody else gets the directory meanwhile, unless the run has ended already.
    let other = place.resume(1).output().unwrap();
    assert!(!other.status.success(), "{}", String::from_utf8_lossy(&other.stderr));
    assert!(!process.0.wait().unwrap().success());
    assert!(said().contains(".lock was removed or replaced during the run"), "{}", said());

    let elsewhere = place.dir.path().join("moved");
    let done = count_lines(&metrics);
    let mut process = Process::start_logging(place.resume(100_000), &log);
    wait_for("more steps", || count_lines(&metrics) >= done + 2);
    std::fs::rename(&place.run, &elsewhere).unwrap();
    assert!(!process.0.wait().unwrap().success());
    assert!(said().contains("was moved, removed or replaced during the run"), "{}", said());
    assert!(!metrics.exists(), "nothing is written where the directory was");
    let steps = count_lines(&elsewhere.join("metrics.jsonl")) + 1;
    let mut again = resume(&elsewhere);
    again.args(["--steps", &steps.to_string()]);
    succeed(again);
}
