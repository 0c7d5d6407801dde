//! A tied model and a real vLLM: the commands that prepare both, what is refused before the first step, and that every
//! tensor arrives.
#![allow(clippy::print_stdout, reason = "a test prints what it measured")]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use evenkeel_model_folder::{EMBEDDING, Folder, HEAD, HeadForm, WeightFiles};
use serde_json::Value;

use crate::real_vllm::Vllm;
use crate::support::{evenkeel, refused, small, succeed, train};

/// Largest mean difference of a log-probability over the tokens of a step, both sides in f32.
const MEAN: f64 = 1e-4;

fn untie(model: &Path, to: &Path) -> Command {
    let mut command = evenkeel(&["model", "untie"]);
    command.arg(model).arg(to);
    command
}

/// A tied model in the shape of the small recipe.
fn tied_model(folder: &Path) -> PathBuf {
    let model = folder.join("model");
    let mut command = evenkeel(&["model", "--set", "model.fresh.tied=true", "--recipe"]);
    command.arg(small()).arg("--out").arg(&model);
    succeed(command);
    model
}

fn head_of(folder: &Path) -> HeadForm {
    HeadForm::of(&Folder::new(folder).json("config.json").unwrap().unwrap())
}

#[test]
fn untie_writes_the_head_out_once_and_links_a_model_that_needs_no_copy() {
    let dir = tempfile::tempdir().unwrap();
    let model = tied_model(dir.path());
    let to = dir.path().join("copy");
    let said = String::from_utf8(succeed(untie(&model, &to)).stdout).unwrap();
    assert!(said.contains(": written; the untied head takes ") && said.contains(" more than in "), "{said}");
    assert_eq!((head_of(&model), head_of(&to)), (HeadForm::Tied, HeadForm::WrittenOut));
    let tensors = WeightFiles::read(&Folder::new(&to)).unwrap().tensors().unwrap();
    assert_eq!(tensors[HEAD].shape, tensors[EMBEDDING].shape);
    let said = String::from_utf8(succeed(untie(&model, &to)).stdout).unwrap();
    assert!(said.contains(": complete already; "), "{said}");
    let link = dir.path().join("link");
    let said = String::from_utf8(succeed(untie(&to, &link)).stdout).unwrap();
    assert!(said.contains(": a link to "), "{said}");
    assert_eq!(link.canonicalize().unwrap(), to.canonicalize().unwrap());
    let other = dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("mine.txt"), "x").unwrap();
    assert!(refused(untie(&model, &other)).contains("not empty and no copy of this model"));
}

#[test]
fn a_run_that_starts_from_a_copy_is_the_run_that_starts_from_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let model = tied_model(dir.path());
    let copy = dir.path().join("copy");
    succeed(untie(&model, &copy));
    let lines = [&model, &copy].map(|model| {
        let out = dir.path().join(format!("run-{}", model.file_name().unwrap().display()));
        let mut command = train(&out);
        let settings = [
            "run.steps=2",
            "data.kind=arithmetic",
            "warm_start.steps=2",
            "evaluation.problems=0",
            "checkpoint.keep_weights=0",
            "shaping.overlong_buffer_tokens=70",
        ];
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        command.args(["--set", &format!("model.path={}", model.display())]);
        succeed(command);
        assert_eq!(head_of(&out.join("weights/step-3")), HeadForm::Tied, "the embedded engine takes it as it is");
        metrics(&out)
    });
    let bits = |lines: &[Value]| {
        lines.iter().map(|line| line["actor/grad_norm"].as_f64().unwrap().to_bits()).collect::<Vec<_>>()
    };
    assert!(lines[0].len() == 2 && lines[0].iter().all(|line| line["actor/grad_norm"].as_f64().unwrap() > 0.0));
    assert_eq!(bits(&lines[0]), bits(&lines[1]));
}

#[test]
fn the_worker_extension_is_written_with_the_command_that_loads_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("evenkeel_worker.py");
    let mut command = evenkeel(&["model", "worker-extension"]);
    command.arg(&file);
    let said = String::from_utf8(succeed(command).stdout).unwrap();
    assert!(said.contains("--worker-extension-cls evenkeel_worker.WeightDigests"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), evenkeel_generation::WORKER_EXTENSION);
    let mut command = evenkeel(&["model", "worker-extension"]);
    command.arg(dir.path().join("my-worker.py"));
    assert!(refused(command).contains("allowed: the name of a Python module"));
}

fn metrics(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The options of a vLLM with a worker extension below a folder.
fn extended(folder: &Path, class: &str) -> impl FnOnce(&mut Command) {
    move |command| {
        command.env("PYTHONPATH", folder).args(["--worker-extension-cls", class]);
    }
}

/// The tied model of the test, and a run of some steps of it with one engine.
struct Setting {
    dir: tempfile::TempDir,
    model: PathBuf,
}

impl Setting {
    fn new() -> Self {
        let model = std::env::var("VLLM_TIED_MODEL").expect("VLLM_TIED_MODEL is the folder of a tied model");
        let dir = tempfile::tempdir().unwrap();
        let mut rows = String::new();
        for (a, b) in (11..43).flat_map(|a| (3..9).map(move |b| (a, b))) {
            writeln!(rows, "{{\"question\": \"What is {a} + {b}?\", \"answer\": \"#### {}\"}}", a + b).unwrap();
        }
        std::fs::write(dir.path().join("rows.jsonl"), rows).unwrap();
        Self { dir, model: model.into() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Training of the tied model itself.
    fn run(&self, engine: &Vllm, out: &Path, steps: u32) -> Command {
        let mut command = evenkeel(&["train", "--recipe"]);
        command.arg(small()).arg("--out").arg(out);
        let settings = [
            format!("model.path={}", self.model.display()),
            format!("data.files=[\"{}\"]", self.path("rows.jsonl").display()),
            format!("generation.endpoints=[\"{}\"]", engine.url()),
            format!("run.steps={steps}"),
            "data.math_profile=unmarked".to_owned(),
            "warm_start.steps=0".to_owned(),
            "evaluation.problems=0".to_owned(),
            "sampling.max_tokens=48".to_owned(),
            // The reward by length makes most groups ones that teach.
            "shaping.overlong_buffer_tokens=40".to_owned(),
            "learner.optimizer.learning_rate=1e-5".to_owned(),
            "checkpoint.every=100".to_owned(),
            "checkpoint.keep_weights=0".to_owned(),
            "generation.engine.control_timeout=2m".to_owned(),
        ];
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        command
    }
}

/// ```text
/// VLLM=ENV/bin/vllm VLLM_TIED_MODEL=DIR cargo test --release --workspace --test suite a_tied_model_and_a_real_vllm -- --ignored --nocapture
/// ```
///
/// With `VLLM_KEEP=FOLDER` the logs and the run stay there, and after the tenth step vLLM serves until
/// `FOLDER/hold.log` is removed: other programs can ask it, too.
#[test]
#[ignore = "needs a real vLLM: VLLM is its program, VLLM_TIED_MODEL a tied model"]
fn a_tied_model_and_a_real_vllm() {
    let setting = Setting::new();
    let keep = std::env::var("VLLM_KEEP").ok().map(PathBuf::from);
    let extension = setting.path("evenkeel_worker.py");
    let copy = setting.path("copy");
    let mut command = evenkeel(&["model", "worker-extension"]);
    command.arg(&extension);
    succeed(command);
    succeed(untie(&setting.model, &copy));
    let log = |name: &str| keep.clone().unwrap_or_else(|| setting.dir.path().to_owned()).join(format!("{name}.log"));

    // On the untouched tied folder it is refused before the first step.
    let stock = Vllm::start(&setting.model, &log("tied"), |_| ());
    let out = setting.path("refused");
    let error = refused(setting.run(&stock, &out, 2));
    println!("{error}");
    assert!(
        error.contains("start the engines on DIR") && error.contains("`evenkeel model untie MODEL DIR`"),
        "{error}"
    );
    assert!(!out.join("weights/step-1").exists());
    drop(stock);

    // On the copy every tensor arrives with every update.
    let engine = Vllm::start(&copy, &log("copy"), extended(setting.dir.path(), "evenkeel_worker.WeightDigests"));
    let out = keep.as_ref().map_or_else(|| setting.path("run"), |keep| keep.join("run"));
    let output = succeed(setting.run(&engine, &out, 10));
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(
        said.contains("the output head of the model is tied to its embedding, and untied for these engines"),
        "{said}"
    );
    assert!(said.contains("tensors are equal in float32"), "{said}");
    let lines = metrics(&out);
    assert_eq!(lines.len(), 10);
    let gaps: Vec<f64> = lines.iter().filter_map(|line| line["proof/mean_gap"].as_f64()).collect();
    println!("by how much the tokens of each step's proof differ: {gaps:?}");
    assert!(gaps.len() == 10 && gaps.iter().all(|gap| *gap < MEAN), "{gaps:?}");
    assert_eq!(head_of(&out.join("weights/step-9")), HeadForm::WrittenOut);
    if keep.is_some() {
        // For programs that ask it more.
        println!(
            "{} serves {} until {} is removed",
            engine.url(),
            out.join("weights/step-10").display(),
            log("hold").display()
        );
        std::fs::write(log("hold"), engine.url()).unwrap();
        while log("hold").exists() {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    drop(engine);

    // A vLLM that goes on with one tensor of its start is stopped by name.
    std::fs::write(setting.path("forgetful_worker.py"), FORGETFUL).unwrap();
    let engine = Vllm::start(&copy, &log("forgetful"), extended(setting.dir.path(), "forgetful_worker.WeightDigests"));
    let out = setting.path("stopped");
    let error = refused(setting.run(&engine, &out, 3));
    println!("{error}");
    assert!(error.contains("1 of ") && error.contains("model.layers.1.mlp.down_proj.weight"), "{error}");
    assert!(!out.join("weights/step-2").exists(), "nothing was trained on what it sampled");
}

/// The worker extension in a vLLM that loads one tensor only once.
const FORGETFUL: &str = r#"
from evenkeel_worker import WeightDigests
from vllm.model_executor.models.llama import LlamaForCausalLM
from vllm.model_executor.models.qwen2 import Qwen2ForCausalLM

NAME = "model.layers.1.mlp.down_proj.weight"
first = []

def forgetful(load):
    def load_weights(self, weights):
        def once(weights):
            for name, tensor in weights:
                if name == NAME:
                    first.append(tensor.clone())
                    tensor = first[0]
                yield name, tensor
        return load(self, once(weights))
    return load_weights

for model in (LlamaForCausalLM, Qwen2ForCausalLM):
    model.load_weights = forgetful(model.load_weights)
"#;
