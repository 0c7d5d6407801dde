//! From own rows to a model that answers: `init`, `data check`, `config`, `generate`, `runs --prune`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{evenkeel, refused, small, succeed, train, written_model};

fn within(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = evenkeel(arguments);
    command.current_dir(folder);
    command
}

fn stdout(command: Command) -> String {
    String::from_utf8(succeed(command).stdout).unwrap()
}

/// Word problems with an answer each.
fn rows(path: &Path, count: usize) {
    let row =
        |n: usize| format!("{}\n", json!({"question": format!("He has {n} apples. And one more?"), "answer": n + 1}));
    std::fs::write(path, (0..count).map(row).collect::<String>()).unwrap();
}

#[test]
fn what_init_writes_for_own_rows_passes_the_dry_run_and_asks_for_marked_answers() {
    let dir = tempfile::tempdir().unwrap();
    written_model(dir.path());
    for count in [2, 30] {
        rows(&dir.path().join("rows.jsonl"), count);
        let _ = std::fs::remove_file(dir.path().join("recipe.toml"));
        stdout(within(dir.path(), &["init", "--data", "rows.jsonl", "--model", "model"]));
        let recipe = std::fs::read_to_string(dir.path().join("recipe.toml")).unwrap();
        assert!(recipe.lines().count() < 35, "{recipe}");
        assert!(recipe.contains("suffix = \"\\n\\nPut your final answer within \\\\boxed{}.\""), "{recipe}");
        let output =
            within(dir.path(), &["train", "--dry-run", "--json", "--no-timing", "recipe.toml"]).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["can_start"], &report["problems"]), (&json!(true), &json!([])), "{recipe}");
        assert!(!report["notes"].to_string().contains("data.suffix"), "{report}");
    }
    let said = refused(within(dir.path(), &["init", "--data", "rows.jsonl", "--model", "model"]));
    assert!(said.contains("recipe.toml is there already"), "{said}");
    let said = refused(within(dir.path(), &["init"]));
    assert!(said.contains("--model is absent, required"), "{said}");
}

#[test]
fn numbers_follow_from_the_model_and_its_answers_and_an_environment_gets_the_turns_of_its_template() {
    let dir = tempfile::tempdir().unwrap();
    written_model(dir.path());
    rows(&dir.path().join("rows.jsonl"), 30);
    let init = ["init", "--data", "rows.jsonl", "--model", "model"];
    let said = stdout(within(dir.path(), &init));
    assert!(
        said.contains("the recipe can start; a run takes ") && said.contains("evenkeel train recipe.toml"),
        "{said}"
    );
    let recipe = std::fs::read_to_string(dir.path().join("recipe.toml")).unwrap();
    let value = |key: &str| {
        let line = recipe.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{key}: {recipe}"));
        line.split(['=', '#']).nth(1).unwrap().trim().to_owned()
    };
    assert_eq!(value("learning_rate"), "9.0e-5", "1.5e-5 x 576 / 96");
    assert!((1..=200).contains(&value("max_tokens").parse::<u64>().unwrap()), "what fits its context: {recipe}");
    assert!(recipe.contains(" of 16 sampled answers "), "{recipe}");

    // The description of its tools makes prompts longer than the context of that model.
    let wide = dir.path().join("wide");
    let mut command = evenkeel(&["model", "--set", "model.fresh.context_tokens=2048", "--recipe"]);
    command.arg(small()).arg("--out").arg(&wide);
    succeed(command);
    std::fs::write(
        wide.join("chat_template.jinja"),
        "{% for m in messages %}{{ m.role }}\n{{ m.content }}<eos>\n{% endfor %}\
         {% if add_generation_prompt %}assistant\n{% endif %}",
    )
    .unwrap();
    std::fs::remove_file(dir.path().join("recipe.toml")).unwrap();
    let said = stdout(within(dir.path(), &["init", "--data", "rows.jsonl", "--model", "wide", "--environment"]));
    let recipe = std::fs::read_to_string(dir.path().join("recipe.toml")).unwrap();
    assert!(recipe.contains("[turns]\ntools = \"system-prompt\""), "{said}{recipe}");
    assert!(said.contains("the recipe can start; a run takes "), "{said}");
}

#[test]
fn rows_without_gold_answers_get_a_reward_function() {
    let dir = tempfile::tempdir().unwrap();
    written_model(dir.path());
    std::fs::write(dir.path().join("rows.csv"), "prompt,word\n\"Say yes, please\",yes\nSay no,no\n").unwrap();
    let init = ["init", "--data", "rows.csv", "--model", "model"];
    let said = refused(within(dir.path(), &init));
    assert!(said.contains("--verifier writes a reward function, which needs no gold answer"), "{said}");
    stdout(within(dir.path(), &[&init[..], &["--verifier"]].concat()));
    let recipe = std::fs::read_to_string(dir.path().join("recipe.toml")).unwrap();
    assert!(
        recipe.contains("[data.verifiers.reward]\npath = \"reward.py\"") && recipe.contains("verifier = \"reward\""),
        "{recipe}"
    );
    assert!(!recipe.contains("suffix"), "nobody looks for a mark: {recipe}");
    assert!(std::fs::read_to_string(dir.path().join("reward.py")).unwrap().contains("def reward(completion, row)"));
    let printed = stdout(within(dir.path(), &["config", "data.verifiers", "--recipe", "recipe.toml"]));
    assert!(!printed.is_empty());
}

#[test]
fn rows_with_tests_are_programs_and_nobody_looks_for_a_mark() {
    let dir = tempfile::tempdir().unwrap();
    // The words in which programs are asked for do not fit the small recipe's context.
    let mut model =
        within(dir.path(), &["model", "--out", "model", "--set", "model.fresh.context_tokens=4096", "--recipe"]);
    model.arg(small());
    succeed(model);
    let row = |n: usize| {
        let tests = json!([{"input": "1", "output": (n + 1).to_string()}]);
        format!("{}\n", json!({"prompt": format!("Read x and print x + {n}."), "tests": tests}))
    };
    std::fs::write(dir.path().join("rows.jsonl"), (0..30).map(row).collect::<String>()).unwrap();
    let said = stdout(within(dir.path(), &["init", "--data", "rows.jsonl", "--model", "model"]));
    assert!(said.contains("30 problems (code)"), "{said}");
    let recipe = std::fs::read_to_string(dir.path().join("recipe.toml")).unwrap();
    assert!(recipe.contains("# Rows with tests are programs: the sandbox runs them."), "{recipe}");
    assert!(!recipe.contains("suffix") && !recipe.contains("overlong"), "{recipe}");
    let output = within(dir.path(), &["train", "--dry-run", "--json", "--no-timing", "recipe.toml"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["can_start"], &report["problems"]), (&json!(true), &json!([])), "{report}");
    assert_eq!(report["data"]["sets"][1]["rows"], 3, "held out of 30: {report}");
}

#[test]
fn rows_are_checked_without_a_model_and_what_is_dropped_is_summed_up() {
    let dir = tempfile::tempdir().unwrap();
    let text = [
        json!({"prompt": "How many?\n", "answer": 4}).to_string(),
        json!({"prompt": "Without an answer"}).to_string(),
        "{".to_owned(),
        json!({"prompt": "How many more?", "answer": 5}).to_string(),
    ];
    std::fs::write(dir.path().join("rows.jsonl"), text.join("\n") + "\n").unwrap();
    std::fs::write(dir.path().join("rows.json"), format!("[{}, {}]", text[0], text[3])).unwrap();
    std::fs::write(dir.path().join("rows.csv"), "prompt,answer\nHow many?,4\nHow many more?,5\n").unwrap();
    let output = within(dir.path(), &["data", "check", "rows.jsonl"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("2 of 4 rows give no prompt: 1 invalid-row, 1 missing-gold"), "{said}");
    assert!(said.contains("warning: no prompt asks for a marked answer") && said.contains("data.suffix"), "{said}");
    assert!(
        shown.contains("rows.jsonl#4, without a model") && shown.contains("line 3") && shown.contains("How many?⏎"),
        "one way to number rows: {shown}"
    );
    for name in ["rows.json", "rows.csv"] {
        let output = within(dir.path(), &["data", "check", "--json", name]).output().unwrap();
        let lines: Vec<Value> =
            String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines.len(), &lines[1]["gold"]), (3, &json!("5")), "{name}");
    }
    let marked =
        within(dir.path(), &["data", "check", "rows.csv", "--set", "data.suffix= In \\boxed{}."]).output().unwrap();
    assert!(!String::from_utf8_lossy(&marked.stderr).contains("warning"));
    let idle = ["data", "check", "rows.csv", "--set", "data.verifiers.words.endpoints=[\"http://127.0.0.1:1\"]"];
    assert!(refused(within(dir.path(), &idle)).contains("data.verifiers.words judges no row"));
}

#[test]
fn the_first_evaluation_says_which_setting_to_change_where_nothing_is_marked() {
    let dir = tempfile::tempdir().unwrap();
    rows(&dir.path().join("rows.jsonl"), 30);
    let mut command = train(&dir.path().join("run"));
    command.args(["--steps", "1", "--set", "warm_start.steps=0", "--set", "evaluation.problems=8", "--set"]);
    command.arg(format!("data.files={}", dir.path().join("rows.jsonl").display()));
    command.args(["--set", "model.fresh.context_tokens=200"]);
    let said = String::from_utf8(succeed(command).stderr).unwrap();
    assert!(said.contains("answers have nothing that the verifier judges (no_answer)"), "{said}");
}

#[test]
fn a_model_is_asked_and_a_run_in_its_place_is_named_as_one() {
    let dir = tempfile::tempdir().unwrap();
    written_model(dir.path());
    let ask = |seed: &str| {
        stdout(within(
            dir.path(),
            &["generate", "model", "1+1=\n", "--temperature", "1", "--max-tokens", "8", "--seed", seed],
        ))
    };
    assert_eq!(ask("1"), ask("1"));
    assert_ne!(ask("1"), ask("2"));
    let said = refused(within(dir.path(), &["generate", "model", "1+1=\n", "--max-tokens", "5000"]));
    assert!(said.contains("--max-tokens is 5000, allowed: at most"), "{said}");
    let said = refused(within(dir.path(), &["generate", "model", "1+1=\n", "--max-tokens", "many"]));
    assert!(said.contains("allowed: a whole number"), "{said}");
}

#[test]
fn runs_have_sizes_and_are_removed_by_name_unless_they_are_in_progress() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    for name in ["one", "two"] {
        let mut command = train(&runs.join(name));
        command.args(["--steps", "1", "--set", "warm_start.steps=0", "--set", "evaluation.problems=0"]);
        succeed(command);
    }
    let listed = stdout(within(dir.path(), &["runs"]));
    assert!(listed.lines().next().unwrap().contains("size") && listed.contains("MiB"), "{listed}");
    assert!(refused(within(dir.path(), &["runs", "--prune", "one"])).contains("--yes is absent, required"));
    assert!(runs.join("one").exists(), "nobody was asked");
    let said = refused(within(dir.path(), &["runs", "--prune", "three", "--yes"]));
    assert!(said.contains("--prune is \"three\", allowed: one of two, one"), "{said}");
    let lock = evenkeel_run::Lock::take(&runs.join("two")).unwrap();
    let said = refused(within(dir.path(), &["runs", "--prune", "two", "--yes"]));
    assert!(said.contains("which is in progress") && runs.join("two").exists(), "{said}");
    drop(lock);
    stdout(within(dir.path(), &["runs", "--prune", "one", "--yes"]));
    assert!(!runs.join("one").exists() && runs.join("two").exists());
    assert!(stdout(within(dir.path(), &["runs", "--prune"])).is_empty(), "it has done a step");

    let said = refused(within(dir.path(), &["eval", "--model", "runs/two", "--benchmark", "a=b.jsonl"]));
    assert!(said.contains("--model is runs/two, a run") && said.contains("evenkeel export"), "{said}");
    std::fs::write(dir.path().join("words.jsonl"), "{}\n").unwrap();
    let said = refused(within(dir.path(), &["show", "words.jsonl"]));
    assert!(said.contains("words.jsonl, which is no file of answers"), "{said}");
}

#[test]
fn a_closed_pipe_ends_no_command_with_a_panic_and_no_run() {
    let dir = tempfile::tempdir().unwrap();
    let binary = env!("CARGO_BIN_EXE_evenkeel");
    let run = format!("{binary} train {} --json --steps 3 --out run | head -c 10", small().display());
    let script = format!("{run}; {binary} watch run | head -c 5");
    let output = Command::new("bash").args(["-c", &script]).current_dir(dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("panicked"), "{said}");
    let lines = std::fs::read_to_string(dir.path().join("run/metrics.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 3, "the run goes on to its end");
}

#[test]
fn a_command_that_there_is_not_leads_to_the_one_that_does_it() {
    let said = refused(evenkeel(&["delete"]));
    assert!(said.contains("evenkeel runs --prune NAME"), "{said}");
}
