//! The verifier of `examples/` in a run, reward functions that a run starts itself, and the commands of the
//! documentation. They need grpcio, which is installed once into the target directory; where no package index can be
//! reached the tests are reported as ignored.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on may panic, and says why it is ignored"
)]

#[path = "custom_verifier/pages.rs"]
mod pages;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use evenkeel_testkit::{Trial, run, test};
use serde_json::Value;

/// What the example needs. Part of the folder's name, so that another list is installed anew.
const PACKAGES: [&str; 2] = ["grpcio==1.85.1", "grpcio-tools==1.85.1"];

fn main() -> ExitCode {
    type Check = fn(&Path);
    let runs: [(&str, Check); 5] = [
        ("the_commands_of_the_documentation_that_are_marked_run_succeed", pages::succeed),
        ("a_run_learns_from_the_verdicts_of_the_example_and_logs_its_component", trains),
        ("a_run_starts_a_file_of_reward_functions_and_logs_each_of_them", trains_on_functions),
        ("a_run_whose_reward_functions_are_others_is_not_gone_on_with", other_functions),
        ("a_file_of_reward_functions_that_dies_is_started_again_and_ends_with_its_run", restarted),
    ];
    let trials = match python() {
        Ok(python) => {
            let of_run = |(name, check): (&str, Check)| {
                let python = python.clone();
                test(name, move || check(&python))
            };
            let mut trials: Vec<Trial> = runs.into_iter().map(of_run).collect();
            trials.extend(checks(&python).into_iter().map(|name| {
                let python = python.clone();
                test(&name.clone(), move || check(&python, &name))
            }));
            trials
        }
        Err(reason) => {
            eprintln!("custom verifiers are not tested: {reason}");
            let ignored = |(name, _)| Trial::test(name, || Ok(())).with_ignored_flag(true).with_kind("needs grpcio");
            runs.into_iter().map(ignored).collect()
        }
    };
    run(trials)
}

fn checks_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verifier_checks.py")
}

/// The behaviours of the program that calls reward functions.
fn checks(python: &Path) -> Vec<String> {
    let output = Command::new(python).arg(checks_file()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn check(python: &Path, name: &str) {
    let output = Command::new(python).arg(checks_file()).arg(name).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Two functions, whose rewards are put together.
const FUNCTIONS: &str = "import os\n\
def right(completion, row):\n    return float(completion.split()[-1:] == [row['answer']])\n\
def brief(completion, row):\n    return 1.0 / (1 + len(completion.token_ids))\n";

/// Rows, a file of functions, and a run of two steps on them.
fn run_with_functions(folder: &Path, python: &Path) -> Command {
    let row = |word: &str| {
        serde_json::json!({"prompt": format!("say {word}\n"), "answer": word, "demonstration": word}).to_string() + "\n"
    };
    std::fs::write(folder.join("rows.jsonl"), ["yes", "no", "maybe", "never"].map(row).concat()).unwrap();
    std::fs::write(folder.join("reward.py"), FUNCTIONS).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/small.toml");
    command.args(["train", "--out", "run"]).arg("--recipe").arg(recipe).current_dir(folder);
    let settings = [
        "run.steps=2".to_owned(),
        "data.files=rows.jsonl".to_owned(),
        "data.verifier=words".to_owned(),
        "data.verifiers.words.path=reward.py".to_owned(),
        format!("data.verifiers.words.python={}", python.display()),
        "data.verifiers.words.functions={right=3.0, brief=1.0}".to_owned(),
        "evaluation.problems=0".to_owned(),
    ];
    command.args(settings.iter().flat_map(|setting| ["--set", setting])).stdin(Stdio::null());
    command
}

fn trains_on_functions(python: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let output = run_with_functions(dir.path(), python).arg("--dry-run").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let output = run_with_functions(dir.path(), python).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = std::fs::read_to_string(dir.path().join("run/metrics.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 2);
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let value = |name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{name} is missing: {line}"));
        assert_eq!((value("rollout/samples"), value("rollout/invalid_samples")), (32.0, 0.0));
        let right = value("reward/components/right/mean");
        let brief = value("reward/components/brief/mean");
        assert!(brief > 0.0 && brief < 1.0, "{line}");
        assert!((value("critic/score/mean") - (3.0 * right + brief) / 4.0).abs() < 1e-9, "{line}");
    }
}

fn other_functions(python: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let output = run_with_functions(dir.path(), python).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let resume = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(["resume", "run", "--steps", "3"]).current_dir(dir.path()).stdin(Stdio::null()).output().unwrap()
    };
    std::fs::write(dir.path().join("reward.py"), FUNCTIONS.replace("1.0 /", "2.0 /")).unwrap();
    let output = resume();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("file of reward functions") && said.contains("reward.py"),
        "{said}"
    );
    std::fs::write(dir.path().join("reward.py"), FUNCTIONS).unwrap();
    let output = resume();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// An interpreter with grpcio, or why there is none.
fn python() -> Result<PathBuf, String> {
    let packages = PACKAGES.join("-").replace("==", "-");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(packages);
    let python = folder.join("bin/python");
    let ready = folder.join("ready");
    if ready.exists() {
        return Ok(python);
    }
    let system = std::env::var("EVENKEEL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let run = |command: &mut Command| {
        let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
    };
    run(Command::new(system).args(["-m", "venv", "--clear"]).arg(&folder))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:"]).args(PACKAGES))?;
    std::fs::write(&ready, "").map_err(|error| error.to_string())?;
    Ok(python)
}

/// The example; it ends with the test.
struct Verifier(Child);

impl Verifier {
    /// Starts it on a free port; returns its address.
    fn start(python: &Path) -> (Self, String) {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/custom_verifier.py");
        let mut command = Command::new(python);
        let mut child = command.arg(example).arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port: u16 = line.trim().rsplit_once(' ').expect("it says its port").1.parse().unwrap();
        (Self(child), format!("http://127.0.0.1:{port}"))
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn trains(python: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("words.jsonl");
    let out = dir.path().join("run");
    let row = |(n, word): (u32, &str)| {
        let right = serde_json::json!({"id": n, "prompt": format!("say {word}\n"), "answer": word, "data_source": "words/echo",
            "demonstration": word});
        let wrong = serde_json::json!({"id": n + 10, "prompt": format!("say {word} now\n"), "answer": word, "data_source": "words/echo",
            "demonstration": format!("well {word} not")});
        format!("{right}\n{wrong}\n")
    };
    let rows: String = (0..).zip(["yes", "no", "maybe", "never"]).map(row).collect();
    std::fs::write(&data, rows).unwrap();
    let (_verifier, address) = Verifier::start(python);
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/small.toml");
    command.args(["train", "--steps", "2"]).arg("--recipe").arg(recipe).arg("--out").arg(&out);
    let settings = [
        format!("data.files={}", data.display()),
        format!("data.verifiers.words.endpoints=[\"{address}\"]"),
        "data.verifiers.words.data_sources=[\"words/*\"]".to_owned(),
        "shaping.weights.brevity=0.5".to_owned(),
        "evaluation.problems=0".to_owned(),
    ];
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = std::fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    for line in lines {
        let value = |name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{name} is missing: {line}"));
        assert_eq!((value("rollout/samples"), value("rollout/invalid_samples")), (32.0, 0.0));
        let brevity = value("reward/components/brevity/mean");
        let score = value("critic/score/mean");
        assert!(brevity > 0.0 && brevity <= 1.0, "{line}");
        assert!((value("critic/rewards/mean") - (score + 0.5 * brevity)).abs() < 1e-9, "{line}");
    }
}

/// Processes whose command line has a text.
fn processes(text: &str) -> Vec<String> {
    let output = Command::new("pgrep").args(["-f", text]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn restarted(python: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let wait_for = |what: &str, holds: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < Duration::from_secs(300), "{what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let mut command = run_with_functions(dir.path(), python);
    command
        .args(["--set", "run.steps=100000", "--set", "warm_start.steps=0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut run = Verifier(command.spawn().unwrap());
    let lines = || std::fs::read_to_string(dir.path().join("run/metrics.jsonl")).unwrap_or_default();
    let bridge = std::fs::canonicalize(dir.path()).unwrap().join("run/evenkeel_verifier.py").display().to_string();
    wait_for("the first step", &|| lines().lines().count() > 0);
    let before = processes(&bridge);
    assert!(!before.is_empty());
    assert!(Command::new("kill").arg("-9").args(&before).status().unwrap().success());
    let done = lines().lines().count();
    wait_for("steps after it", &|| lines().lines().count() > done + 2);
    assert!(processes(&bridge).iter().all(|id| !before.contains(id)));
    let text = lines();
    // The last one may not be whole yet.
    let whole: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(whole.iter().all(|line| line["rollout/invalid_samples"] == 0.0), "no answer is lost");
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    wait_for("the end of the verifier", &|| processes(&bridge).is_empty());
}
