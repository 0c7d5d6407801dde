//! The verifier of `examples/` in a run. It needs grpcio, which is installed once into the target directory; where no
//! package index can be reached the test is reported as ignored.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on may panic, and says why it is ignored"
)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use evenkeel_testkit::{Trial, run, test};
use serde_json::Value;

/// What the example needs. Part of the folder's name, so that another list is installed anew.
const PACKAGES: [&str; 2] = ["grpcio==1.85.1", "grpcio-tools==1.85.1"];

fn main() -> ExitCode {
    type Check = fn(&Path);
    let runs: [(&str, Check); 2] = [
        ("a_run_learns_from_the_verdicts_of_the_example_and_logs_its_component", |python| {
            let (_verifier, address) = Verifier::start(python);
            trains(&format!("endpoints=[\"{address}\"]"));
        }),
        ("a_run_starts_the_example_and_asks_it_at_a_socket", |python| {
            trains(&format!("command={:?}", [python, example().as_path()]))
        }),
    ];
    let trials = match python() {
        Ok(python) => {
            let of_run = |(name, check): (&str, Check)| {
                let python = python.clone();
                test(name, move || check(&python))
            };
            runs.into_iter().map(of_run).collect::<Vec<Trial>>()
        }
        Err(reason) => {
            eprintln!("custom verifiers are not tested: {reason}");
            let ignored = |(name, _)| Trial::test(name, || Ok(())).with_ignored_flag(true).with_kind("needs grpcio");
            runs.into_iter().map(ignored).collect()
        }
    };
    run(trials)
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

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/custom_verifier.py")
}

/// The example; it ends with the test.
struct Verifier(Child);

impl Verifier {
    /// Starts it on a free port; returns its address.
    fn start(python: &Path) -> (Self, String) {
        let mut command = Command::new(python);
        let mut child = command.arg(example()).arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
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

/// A run whose verifier has this setting.
fn trains(place: &str) {
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/small.toml");
    command.args(["train", "--steps", "2"]).arg("--recipe").arg(recipe).arg("--out").arg(&out);
    let settings = [
        format!("data.files={}", data.display()),
        format!("data.verifiers.words.{place}"),
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
