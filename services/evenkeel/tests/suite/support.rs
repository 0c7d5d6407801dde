//! Runs of the binary in folders of their own, ended with the test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use evenkeel_orchestrator::may_differ;
use serde_json::Value;

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// A recipe with every part of a run, in seconds.
pub(crate) fn small() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/small.toml")
}

/// The binary with arguments.
pub(crate) fn evenkeel(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `evenkeel train` of the small recipe into a folder.
pub(crate) fn train(out: &Path) -> Command {
    let mut command = evenkeel(&["train"]);
    command.arg("--recipe").arg(small()).arg("--out").arg(out);
    command
}

/// `evenkeel train --resume`.
pub(crate) fn resume(out: &Path) -> Command {
    let mut command = evenkeel(&["train", "--resume"]);
    command.arg(out);
    command
}

/// Runs a command to its end, which must be a good one.
pub(crate) fn succeed(mut command: Command) -> Output {
    let output = command.output().expect("the binary starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The small recipe's model, written under a folder.
pub(crate) fn written_model(folder: &Path) -> PathBuf {
    let model = folder.join("model");
    let mut command = evenkeel(&["model", "--recipe"]);
    command.arg(small()).arg("--out").arg(&model);
    succeed(command);
    model
}

/// What a command says on stderr when it refuses.
pub(crate) fn refused(mut command: Command) -> String {
    let output = command.output().expect("the binary starts");
    assert!(!output.status.success(), "{command:?} should be refused");
    String::from_utf8(output.stderr).expect("messages are text")
}

/// A process that ends with the test.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        // Nobody reads what it says: a full pipe must not stop it.
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts"))
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.0.kill().expect("it still runs");
        self.0.wait().expect("it ends");
    }

    /// SIGINT, as Ctrl-C sends it.
    pub(crate) fn interrupt(&self) {
        let status = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status().expect("kill is there");
        assert!(status.success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something holds.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lines that a file has so far.
pub(crate) fn count_lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

/// Every line of a run with everything in it that two runs of one seed share.
pub(crate) fn lines(run: &Path) -> Vec<BTreeMap<String, Value>> {
    let mut all = Vec::new();
    for name in ["warm_start.jsonl", "metrics.jsonl", "evaluation.jsonl"] {
        let text = std::fs::read_to_string(run.join(name)).expect("the run wrote it");
        for line in text.lines() {
            let mut values: BTreeMap<String, Value> = serde_json::from_str(line).expect("a line is JSON");
            values.retain(|name, _| !may_differ(name));
            all.push(values);
        }
    }
    all
}

/// `summary.json`, as far as it is there.
pub(crate) fn summary(run: &Path) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(run.join("summary.json")).ok()?).ok()
}
