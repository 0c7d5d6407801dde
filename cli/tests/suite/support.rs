//! Runs of the binary in folders of their own; processes end with the test.

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use evenkeel_run::metric::table::may_differ;
use serde_json::Value;

/// Time limit of everything here.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A recipe with every part of a run that takes seconds.
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
    train_recipe(&small(), out)
}

/// `evenkeel train` of a recipe into a folder.
pub(crate) fn train_recipe(recipe: &Path, out: &Path) -> Command {
    let mut command = evenkeel(&["train", "--recipe"]);
    command.arg(recipe).arg("--out").arg(out);
    command
}

/// `evenkeel train --resume`.
pub(crate) fn resume(out: &Path) -> Command {
    let mut command = evenkeel(&["train", "--resume"]);
    command.arg(out);
    command
}

/// Runs a command, which must succeed.
pub(crate) fn succeed(mut command: Command) -> Output {
    let output = command.output().expect("the binary starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Creates the model of the small recipe in a folder.
pub(crate) fn written_model(folder: &Path) -> PathBuf {
    let model = folder.join("model");
    let mut command = evenkeel(&["model", "--recipe"]);
    command.arg(small()).arg("--out").arg(&model);
    succeed(command);
    model
}

/// An engine with the model of a folder, at a port.
pub(crate) fn engine(port: u16, model: &Path) -> Process {
    let mut command = evenkeel(&["serve", "engine", "--recipe"]);
    command.arg(small());
    for setting in [format!("listen=127.0.0.1:{port}"), format!("model={}", model.display())] {
        command.args(["--set", &setting]);
    }
    let engine = Process::start(command);
    wait_for("the engine", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    engine
}

/// Runs a command, which must fail; returns its stderr.
pub(crate) fn refused(mut command: Command) -> String {
    let output = command.output().expect("the binary starts");
    assert!(!output.status.success(), "{command:?} should be refused");
    String::from_utf8(output.stderr).expect("messages are text")
}

/// Words that the prompts of [`write_rows`] may ask for.
pub(crate) const WORDS: [&str; 4] = ["yes", "no", "maybe", "never"];

/// Writes `rows.jsonl`, a row for each word, with its demonstration.
pub(crate) fn write_rows(folder: &Path, words: &[&str]) {
    let row = |word: &&str| {
        serde_json::json!({"prompt": format!("say {word}\n"), "answer": word, "demonstration": word}).to_string() + "\n"
    };
    std::fs::write(folder.join("rows.jsonl"), words.iter().map(row).collect::<String>()).unwrap();
}

/// A process that ends with the test.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        // Its output is not read; a full pipe would block it.
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts"))
    }

    /// With its logs in a file.
    pub(crate) fn start_logging(mut command: Command, log: &Path) -> Self {
        let log = std::fs::File::create(log).expect("a file for the log");
        Self(command.stdout(Stdio::null()).stderr(log).spawn().expect("the binary starts"))
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().expect("it still runs");
        self.0.wait().expect("it ends");
    }

    /// SIGINT, as Ctrl-C sends it.
    pub(crate) fn interrupt(&self) {
        self.signal("INT");
    }

    /// A signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let signal = format!("-{name}");
        let status =
            Command::new("kill").args([&signal, &self.0.id().to_string()]).status().expect("kill is installed");
        assert!(status.success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ports that nobody has.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("its address").port())
}

/// A run with each service in a process of its own.
#[cfg_attr(not(feature = "traces"), allow(dead_code, reason = "they are kept to be ended"))]
pub(crate) struct Processes(Vec<Process>);

impl Processes {
    /// Starts the services and with them the run of a recipe, below a folder that has its model. The run is in `runs`.
    pub(crate) fn start(folder: &Path, recipe: &Path, model: &Path, more: &[&str]) -> Self {
        let recipe = recipe.to_str().expect("the path is text");
        let [engine, generation, reward, learner, orchestrator] = free_ports();
        let place = |name: &str| format!("{name}={}", folder.join(name).display());
        let start = |service: &str, settings: &[String]| {
            let mut arguments = vec!["serve", service, "--recipe", recipe];
            arguments.extend(more);
            arguments.extend(settings.iter().flat_map(|setting| ["--set", setting.as_str()]));
            Process::start(evenkeel(&arguments))
        };
        let listen = |port: u16| format!("server.listen=127.0.0.1:{port}");
        // The orchestrator first: it waits for the others.
        Self(vec![
            start(
                "orchestrator",
                &[
                    listen(orchestrator),
                    place("runs"),
                    format!("start.set=[\"model.path={}\"]", model.display()),
                    format!("endpoints.generation=http://127.0.0.1:{generation}"),
                    format!("endpoints.reward=[\"http://127.0.0.1:{reward}\"]"),
                    format!("endpoints.learner=http://127.0.0.1:{learner}"),
                ],
            ),
            start("learner", &[listen(learner), place("model"), place("checkpoints"), place("weights")]),
            start("reward", &[listen(reward)]),
            start("generation", &[listen(generation), format!("endpoints=[\"http://127.0.0.1:{engine}\"]")]),
            start("engine", &[format!("listen=127.0.0.1:{engine}"), place("model")]),
        ])
    }

    #[cfg(feature = "traces")]
    /// Has each of them end as Ctrl-C does, and waits for it.
    pub(crate) fn stop(mut self) {
        for process in &mut self.0 {
            process.interrupt();
            process.0.wait().expect("it ends");
        }
    }
}

/// Waits for a condition.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < TIMEOUT, "{what}: not within {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Number of lines in a file so far.
pub(crate) fn count_lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

/// All lines of a run, without the values that may differ between two runs of one seed.
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

/// What a run says of its prompts.
pub(crate) fn prompts(run: &Path) -> String {
    std::fs::read_to_string(run.join("prompts.jsonl")).expect("the run wrote it")
}

/// Head of what seed and inputs decide in the receipt of a run.
pub(crate) fn determined_head(run: &Path) -> String {
    let receipt = evenkeel_run::read_receipt(run).expect("the run wrote it");
    receipt.last().expect("it has a line").heads.determined.clone()
}

/// `summary.json`, if it exists.
pub(crate) fn summary(run: &Path) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(run.join("summary.json")).ok()?).ok()
}
