//! Data sets as they are published, with the tokenizer of a published model. Neither is in the repository: see
//! crates/testkit.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::path::Path;
use std::process::{Command, ExitCode};

use evenkeel_testkit::{outside, run};
use serde_json::Value;

const TOKENIZER: &str = "data/chat/qwen3";
const PARQUET: [&str; 4] = ["dapo-math", "polaris", "aime24", "aime25"];
const MATH: [&str; 8] =
    ["math500", "aime24", "aime25", "amc23", "minerva", "olympiadbench", "gsm8k", "dapo-math-17k.sample"];

fn main() -> ExitCode {
    let parquet = PARQUET.map(|name| format!("data/parquet/{name}.parquet"));
    let math = MATH.map(|name| format!("data/math/{name}.jsonl"));
    let code = ["data/code/livecodebench-rows.jsonl".to_owned()];
    let files: Vec<_> = [TOKENIZER.to_owned()].into_iter().chain(parquet).chain(math).chain(code).collect();
    let needed: Vec<_> = files.iter().map(String::as_str).collect();
    let trained = [TOKENIZER, "data/parquet/dapo-math.parquet"];
    run(vec![
        outside("published_files_give_their_prompts_and_golds", &needed, published),
        outside("a_run_trains_twenty_steps_on_dapo_math_with_the_tokenizer_of_qwen3", &trained, trains),
    ])
}

fn evenkeel(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(arguments);
    command
}

fn succeed(mut command: Command) -> Vec<Value> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The prompts of a file, and what is said of its rows.
fn check(data: &Path, file: &str) -> (Vec<Value>, Value) {
    let model = data.join(TOKENIZER);
    let path = data.join("data").join(file);
    let mut command = evenkeel(&["data", "check", "--json", "--model"]);
    command.arg(model).arg(&path);
    let mut lines = succeed(command);
    let summary = lines.pop().unwrap()["summary"][path.to_str().unwrap()].clone();
    (lines, summary)
}

fn published(data: &Path) {
    // Rows, prompts.
    for (file, rows, prompts) in [
        ("parquet/dapo-math.parquet", 1000, 200),
        ("parquet/polaris.parquet", 300, 300),
        ("parquet/aime24.parquet", 30, 30),
        ("math/math500.jsonl", 500, 500),
        ("math/gsm8k.jsonl", 1319, 1319),
        ("math/amc23.jsonl", 40, 40),
        ("math/dapo-math-17k.sample.jsonl", 9, 9),
        ("code/livecodebench-rows.jsonl", 3, 3),
    ] {
        let (lines, summary) = check(data, file);
        assert_eq!((&summary["rows"], &summary["prompts"]), (&rows.into(), &prompts.into()), "{file}: {summary}");
        assert_eq!(lines.len(), prompts);
        for line in &lines {
            let text = line["text"].as_str().unwrap();
            assert!(text.starts_with("<|im_start|>user\n") && text.ends_with("<|im_start|>assistant\n"), "{text}");
            assert_eq!(line["gold"].is_null(), file.starts_with("code/"), "{line}");
        }
    }
    let (lines, _) = check(data, "math/minerva.jsonl");
    assert_eq!(lines.iter().filter(|line| line["gold"].is_array()).count(), 75);
    let (lines, summary) = check(data, "math/olympiadbench.jsonl");
    assert!(lines.len() > 600, "{summary}");
    // The same problems in both formats.
    for name in ["aime24", "aime25"] {
        let [parquet, jsonl] = ["parquet/NAME.parquet", "math/NAME.jsonl"].map(|file| {
            let (lines, _) = check(data, &file.replace("NAME", name));
            lines.iter().map(|line| (line["token_ids"].clone(), line["gold"].clone())).collect::<Vec<_>>()
        });
        assert_eq!(parquet, jsonl);
    }
}

fn trains(data: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    let out = dir.path().join("run");
    let mut command = evenkeel(&["model", "--out"]);
    command.arg(&model);
    let shape = [
        "vocabulary_size=151936",
        "hidden_size=32",
        "intermediate_size=32",
        "layers=1",
        "heads=1",
        "kv_heads=1",
        "context_tokens=4096",
    ];
    command.args(shape.iter().flat_map(|setting| ["--set".to_owned(), format!("model.fresh.{setting}")]));
    succeed(command);
    for file in std::fs::read_dir(data.join(TOKENIZER)).unwrap() {
        let file = file.unwrap();
        let copy = model.join(file.file_name());
        std::fs::write(copy, std::fs::read(file.path()).unwrap()).unwrap();
    }
    let recipe = dir.path().join("recipe.toml");
    let text = format!(
        "[run]\nsteps = 20\n[model]\npath = {model:?}\n[data]\nfiles = [{:?}]\noverlong = \"skip\"\n\
         [sampling]\nprompts_per_step = 2\ngroup_size = 2\nmax_tokens = 8\n[evaluation]\nproblems = 2\n[checkpoint]\n\
         every = 20\n",
        data.join("data/parquet/dapo-math.parquet")
    );
    std::fs::write(&recipe, text).unwrap();
    let mut command = evenkeel(&["train", "--json", "--recipe"]);
    command.arg(&recipe).arg("--out").arg(&out);
    let lines = succeed(command);
    let steps = lines.iter().filter(|line| line["kind"] == "train");
    assert_eq!(
        steps.filter(|line| line["rollout/samples"] == 4.0 && line["rollout/invalid_samples"] == 0.0).count(),
        20
    );
    let report: Value = serde_json::from_slice(&std::fs::read(out.join("data.json")).unwrap()).unwrap();
    assert_eq!((&report["files"][0]["rows"], &report["files"][0]["shape"]), (&1000.into(), &"verl".into()));
}
