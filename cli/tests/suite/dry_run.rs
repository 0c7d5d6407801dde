//! `evenkeel train --dry-run`: what a run needs, what it costs, and everything that is missing, before anything starts.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Process, evenkeel, refused, small, succeed, wait_for, written_model};

const TEMPLATE: &str = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}\
                        {% if add_generation_prompt %}[assistant]{% endif %}";

/// The published shape of Qwen3-1.7B.
fn qwen3() -> Value {
    json!({
        "architectures": ["Qwen3ForCausalLM"], "vocab_size": 151_936, "hidden_size": 2048, "intermediate_size": 6144,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
        "max_position_embeddings": 40_960, "rope_theta": 1e6, "tie_word_embeddings": true, "eos_token_id": 1
    })
}

/// The published shape of Qwen2.5-Math-7B.
fn qwen2() -> Value {
    json!({
        "architectures": ["Qwen2ForCausalLM"], "vocab_size": 152_064, "hidden_size": 3584, "intermediate_size": 18_944,
        "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
        "max_position_embeddings": 4096, "rope_theta": 1e4, "tie_word_embeddings": false, "eos_token_id": 1
    })
}

/// The folders that the paper's recipes name: configurations and tokenizers without weights, and a few rows of each
/// data set.
fn workplace(folder: &Path) {
    let tokenizer = written_model(folder).join("tokenizer.json");
    for (name, config) in [("Qwen3-1.7B", qwen3()), ("Qwen2.5-Math-7B", qwen2())] {
        let model = folder.join("models").join(name);
        std::fs::create_dir_all(&model).unwrap();
        std::fs::write(model.join("config.json"), config.to_string()).unwrap();
        std::fs::write(model.join("chat_template.jinja"), TEMPLATE).unwrap();
        std::fs::copy(&tokenizer, model.join("tokenizer.json")).unwrap();
    }
    let sum = |number: usize| json!({"problem": format!("1+{number}?"), "answer": number + 1});
    let program = json!({"question_content": "Print 2n.", "public_test_cases": [{"input": "4", "output": "8"}]});
    let math: Vec<Value> = (0..20).map(sum).collect();
    std::fs::create_dir_all(folder.join("data/livecodebench")).unwrap();
    let rows_of_verl =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/data/tests/golden/parquet/duckdb-verl.parquet");
    for name in ["dapo-math-17k.parquet", "polaris-53k.parquet", "aime-2024.parquet"] {
        std::fs::copy(&rows_of_verl, folder.join("data").join(name)).unwrap();
    }
    for (name, rows) in [
        ("math-500.jsonl", &math[..5]),
        ("aime-2025.jsonl", &math[7..9]),
        ("olympiadbench.jsonl", &math[9..12]),
        ("minerva.jsonl", &math[12..16]),
        ("livecodebench/test6.jsonl", &[program][..]),
    ] {
        let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
        let path = folder.join("data").join(name);
        std::fs::write(path, lines).unwrap();
    }
}

fn dry_run(folder: &Path, recipe: &str, settings: &[&str]) -> Command {
    let mut command = evenkeel(&["train", "--dry-run", "--no-timing", "--recipe", recipe]);
    command.args(settings.iter().flat_map(|setting| ["--set", setting])).current_dir(folder);
    command
}

/// The report of a run that cannot start.
fn cannot_start(mut command: Command) -> Value {
    let output = command.arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["can_start"], false);
    report
}

fn problems(report: &Value) -> Vec<&str> {
    report["problems"].as_array().unwrap().iter().map(|problem| problem.as_str().unwrap()).collect()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn the_plan_on_the_page_about_scaling_is_what_the_command_prints() {
    let dir = tempfile::tempdir().unwrap();
    workplace(dir.path());
    let page = include_str!("../../../docs/scaling.md");
    let (command, printed) = page.split_once("```text\n").unwrap();
    let command = command.lines().rfind(|line| line.starts_with("evenkeel plan ")).unwrap();
    let arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
    let output = evenkeel(&arguments).current_dir(dir.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), printed.split_once("```").unwrap().0);
}

#[test]
fn every_run_of_the_paper_names_its_weights_and_engines_and_counts_its_costs() {
    let dir = tempfile::tempdir().unwrap();
    workplace(dir.path());
    let nowhere = format!("generation.endpoints=[\"http://127.0.0.1:{}\"]", free_port());
    for (model, folder, tokens) in [("qwen3-1.7b", "Qwen3-1.7B", 8192), ("qwen2.5-math-7b", "Qwen2.5-Math-7B", 2048)] {
        for data in ["dapo", "polaris"] {
            for rule in ["token", "sequence", "balanced", "batch-token"] {
                let name = format!("paper/{model}-{data}-{rule}");
                let report =
                    cannot_start(dry_run(dir.path(), &name, &[&nowhere, "generation.engine.startup_timeout=300ms"]));
                let problems = problems(&report);
                let said = |words: &[&str]| {
                    let has = |problem: &&str| words.iter().all(|word| problem.contains(word));
                    assert!(problems.iter().any(has), "{name}: no {words:?} in {problems:?}");
                };
                said(&[folder, "is absent, required: model.safetensors", "published as https://huggingface.co/Qwen/"]);
                said(&["generation.endpoints[0]", "http://127.0.0.1:"]);
                if !cfg!(feature = "cuda") {
                    said(&["learner.compute.device is cuda", "cpu in this build"]);
                }
                let of_data = |problem: &&str| problem.contains("data.") || problem.contains("evaluation.");
                assert!(!problems.iter().any(of_data), "{problems:?}");

                let notes = report["notes"].to_string();
                let head = notes.contains("`evenkeel model untie`") && notes.contains(" more in each published folder");
                assert_eq!(head, model == "qwen3-1.7b", "a tied head is written out for vLLM: {notes}");

                let costs = &report["costs"];
                assert_eq!((&report["steps"], &costs["run"]["training_samples"]), (&json!(500), &json!(1_024_000)));
                assert_eq!(costs["evaluations"], 26, "before the first step and every twenty");
                let sets = report["data"]["sets"].as_array().unwrap();
                let asked =
                    sets.iter().filter(|set| set["part"] == "evaluation").map(|set| set["prompts"].as_u64().unwrap());
                let asked: u64 = asked.sum();
                assert!(sets.len() == 7 && asked > 5 + 1 + 2 + 3 + 4, "{sets:?}");
                assert_eq!(costs["evaluation_at_most"]["samples"], 8 * asked, "8 samples for each problem");
                assert_eq!(costs["step_at_most"]["answer_tokens_each"].as_f64(), Some(f64::from(tokens)));
                assert!(costs["step_at_most"]["training_flops"].as_f64().unwrap() > 1e16, "{costs}");
                assert!(report["memory"]["needed_bytes"].as_u64().unwrap() > 27 << 30, "{report}");
            }
        }
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_named_with_what_is_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let mut command = dry_run(dir.path(), small().to_str().unwrap(), &[]);
    command.args(["--out", "file/run"]);
    let report = cannot_start(command);
    let problem = problems(&report).into_iter().find(|problem| problem.contains("--out file/run")).unwrap();
    assert!(problem.contains("a place that cannot be written (") && problem.contains("/file: "), "{problem}");
    assert!(problem.contains("allowed: a directory that this process can make and write"), "{problem}");
}

#[test]
fn everything_that_is_missing_is_named_with_where_it_is_published() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = format!("generation.endpoints=[\"http://127.0.0.1:{}\"]", free_port());
    let mut command = dry_run(dir.path(), "paper/qwen3-1.7b-polaris-balanced", &[&nowhere]);
    let report = cannot_start(command);
    let problems = problems(&report);
    for (file, place) in [
        ("models/Qwen3-1.7B", "https://huggingface.co/Qwen/Qwen3-1.7B"),
        ("data/polaris-53k.parquet", "POLARIS-Project"),
        ("data/math-500.jsonl", "HuggingFaceH4/MATH-500"),
        ("data/aime-2024.parquet", "BytedTsinghua-SIA/AIME-2024"),
        ("data/aime-2025.jsonl", "aime25"),
        ("data/olympiadbench.jsonl", "olympiadbench/test.jsonl"),
        ("data/minerva.jsonl", "minerva_math/test.jsonl"),
        ("data/livecodebench/*.jsonl", "livecodebench/code_generation_lite"),
    ] {
        let is_named = problems.iter().any(|problem| problem.contains(file) && problem.contains(place));
        assert!(is_named, "{file} at {place}: {problems:?}");
    }
    assert!(report["costs"].is_null(), "the shape of the model is unknown");

    command = dry_run(dir.path(), "paper/qwen3-1.7b-polaris-balanced", &[&nowhere]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("problem: model.path: models/Qwen3-1.7B is not a folder"), "{said}");
    assert!(said.starts_with("the run cannot start: "), "{said}");
    assert!(dir.path().read_dir().unwrap().next().is_none(), "nothing is written");
}

#[test]
fn a_teacher_is_compared_with_the_fresh_model_that_the_run_would_create() {
    let dir = tempfile::tempdir().unwrap();
    let teacher = format!("learner.distillation.teacher={}", written_model(dir.path()).display());
    let alone = "learner.distillation.reward_weight=0";
    let output = succeed(dry_run(dir.path(), small().to_str().unwrap(), &[&teacher, alone]));
    assert!(output.stdout.starts_with(b"the run can start\n"), "{}", String::from_utf8_lossy(&output.stdout));

    let longer = "model.fresh.context_tokens=4096";
    let report = cannot_start(dry_run(dir.path(), small().to_str().unwrap(), &[&teacher, alone, longer]));
    assert!(problems(&report)[0].contains("max_position_embeddings of at least 4096"), "{report}");
}

#[test]
fn a_run_that_can_start_says_so_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let output = succeed(dry_run(dir.path(), small().to_str().unwrap(), &[]));
    let said = String::from_utf8(output.stdout).unwrap();
    for words in [
        "small: 6 steps of 4 prompts x 8 samples",
        "rule   balanced",
        "a fresh model: ",
        "training  ",
        "40 tokens an answer",
        "the run: 192 training samples, 32 samples of 2 evaluations",
        "memory of cpu",
        "note: learner: the clip of policy = ppo never acts",
        "time   unknown: it was not measured",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.starts_with("the run can start\n"), "{said}");
    assert!(dir.path().read_dir().unwrap().next().is_none(), "nothing is written");

    std::fs::write(dir.path().join("file"), "").unwrap();
    let mut command = dry_run(dir.path(), small().to_str().unwrap(), &[]);
    command.args(["--out", "."]);
    let report = cannot_start(command);
    assert!(problems(&report)[0].contains("--out . is not empty"), "{report}");
}

#[test]
fn a_reachable_engine_is_no_problem_unless_its_context_is_too_short() {
    let dir = tempfile::tempdir().unwrap();
    let model = format!("model={}", written_model(dir.path()).display());
    let port = free_port();
    let listen = format!("listen=127.0.0.1:{port}");
    let _engine =
        Process::start(evenkeel(&["serve", "engine", "--set", &model, "--set", &listen, "--set", "max_model_len=120"]));
    wait_for("the engine", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let engine = format!("generation.endpoints=[\"http://127.0.0.1:{port}\"]");
    let path = format!("model.path={}", dir.path().join("model").display());
    let recipe = small();
    let sums = "data.kind=arithmetic";
    let recipe = recipe.to_str().unwrap();
    succeed(dry_run(dir.path(), recipe, &[&engine, &path, sums]));
    let report = cannot_start(dry_run(dir.path(), recipe, &[&engine, &path, sums, "sampling.max_tokens=118"]));
    let problems = problems(&report);
    assert!(problems.len() == 1 && problems[0].contains("120"), "{problems:?}");
}

#[test]
fn rows_at_fault_and_prompts_without_room_are_found_in_every_file() {
    let dir = tempfile::tempdir().unwrap();
    let rows = |name: &str, rows: &[Value]| {
        let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
        std::fs::write(dir.path().join(name), text).unwrap();
    };
    rows("good.jsonl", &[json!({"prompt": "1+1?", "answer": 2}), json!({"prompt": "1+2?"})]);
    rows("bad.jsonl", &[json!({"prompt": "1+3?"})]);
    rows("long.jsonl", &[json!({"prompt": "1+".repeat(200), "answer": 3})]);
    let files = "data.files=[\"good.jsonl\", \"bad.jsonl\", \"long.jsonl\", \"none.jsonl\"]";
    let settings = [files, "warm_start.steps=0", "evaluation.problems=1"];
    let report = cannot_start(dry_run(dir.path(), small().to_str().unwrap(), &settings));
    let found = problems(&report);
    for words in [
        &["data.files[1]", "yields no prompts", "missing-gold"][..],
        &["data.files[2]", "long.jsonl has 1 prompts of more than", "data.overlong"],
        &["data.files[3]", "none.jsonl does not exist"],
    ] {
        let has = |problem: &&str| words.iter().all(|word| problem.contains(word));
        assert!(found.iter().any(has), "{words:?}: {found:?}");
    }
    assert_eq!(found.len(), 3, "{found:?}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("good.jsonl") && notes.contains("1 missing-gold"), "{notes}");
    let set = &report["data"]["sets"][0];
    assert_eq!((&set["rows"], &set["prompts"], &set["mean_tokens"]), (&json!(2), &json!(1), &json!(4.0)));
}

#[test]
fn a_verifier_that_is_not_there_or_judges_something_else_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let listen = format!("server.listen=127.0.0.1:{port}");
    let _reward = Process::start(evenkeel(&["serve", "reward", "--set", &listen]));
    wait_for("the reward service", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let endpoints = format!("[\"http://127.0.0.1:{port}\", \"http://127.0.0.1:{}\"]", free_port());
    let settings =
        [format!("data.verifiers.games.endpoints={endpoints}"), "data.verifiers.lost.data_sources=[\"a\"]".into()];
    let settings: Vec<_> = settings.iter().map(String::as_str).collect();
    let report = cannot_start(dry_run(dir.path(), small().to_str().unwrap(), &settings));
    let found = problems(&report);
    for words in [
        &["data.verifiers.games.endpoints[0]", "judges no custom tasks"][..],
        &["data.verifiers.games.endpoints[1]", "cannot be reached"],
        &["data.verifiers.lost.endpoints is empty"],
    ] {
        let has = |problem: &&str| words.iter().all(|word| problem.contains(word));
        assert!(found.iter().any(has), "{words:?}: {found:?}");
    }
}

#[test]
fn a_dry_run_of_a_recipe_that_is_refused_is_refused_alike() {
    let dir = tempfile::tempdir().unwrap();
    let message = refused(dry_run(dir.path(), small().to_str().unwrap(), &["learner.epochs=0"]));
    assert!(message.contains("learner.epochs"), "{message}");
}

#[test]
fn a_dry_run_names_every_setting_that_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = small();
    let recipe = recipe.to_str().unwrap();
    let out_of_range = ["learner.epochs=0", "learner.optimizer.learning_rate=-1", "sampling.top_p=2"];
    let message = refused(dry_run(dir.path(), recipe, &out_of_range));
    let unread = ["lerner.epochs=2", "sampling.max_tokens=many", "learner.objective.aggregation=tokens"];
    let message = format!("{message}{}", refused(dry_run(dir.path(), recipe, &unread)));
    assert_eq!(message.matches("3 settings are refused").count(), 2, "{message}");
    for setting in out_of_range.iter().chain(&unread) {
        let (key, _) = setting.split_once('=').unwrap();
        assert!(message.contains(&format!("`{key}`")) || message.contains("`lerner`"), "{key}: {message}");
    }
}

#[test]
fn an_overlay_alone_names_all_that_it_lacks_and_nothing_of_what_it_would_train_on() {
    let dir = tempfile::tempdir().unwrap();
    let report = cannot_start(dry_run(dir.path(), "dapo", &[]));
    let problems = problems(&report);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("model.path is absent") && problems[1].starts_with("data.files is absent"));
}

#[test]
fn held_out_problems_are_no_training_prompts_and_a_length_that_never_fits_names_both_settings() {
    let dir = tempfile::tempdir().unwrap();
    let rows: String =
        (0..100).map(|n| format!("{}\n", json!({"prompt": format!("{n}+1=\n"), "answer": n + 1}))).collect();
    std::fs::write(dir.path().join("rows.jsonl"), rows).unwrap();
    let recipe = small();
    let recipe = recipe.to_str().unwrap();
    let settings = ["data.files=rows.jsonl", "warm_start.steps=0", "evaluation.problems=10"];
    let mut command = dry_run(dir.path(), recipe, &settings);
    let report: Value = serde_json::from_slice(&command.arg("--json").output().unwrap().stdout).unwrap();
    let sets = &report["data"]["sets"];
    assert_eq!((&sets[0]["rows"], &sets[0]["prompts"], &sets[1]["prompts"]), (&json!(100), &json!(90), &json!(10)));

    let model = format!("model.path={}", written_model(dir.path()).display());
    let settings = [&settings[..], &[&model, "sampling.max_tokens=1000000"]].concat();
    let report = cannot_start(dry_run(dir.path(), recipe, &settings));
    let found = problems(&report);
    let words = "sampling.max_tokens is 1000000, allowed: less than the model's context of ";
    assert!(found[0].contains(words), "{found:?}");
}
