//! The dry run sends a row through an environment of one's own, and names what a run would fail of.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::episodes::model;
use crate::support::{evenkeel, succeed};

/// A shop with one tool, and a score of its own.
const SHOP: &str = "from evenkeel_environment import Environment, tool


class Shop(Environment):
    def reset(self, task, seed):
        self.left = float(task[\"answer\"])

    @tool
    def buy(self, item: str, price: int) -> str:
        \"\"\"Buys an item.\"\"\"
        self.left -= price
        return f\"{item}: {self.left} left\"

    def step(self, action):
        return super().step(action) if action.calls else None

    def score(self):
        return {\"reward\": 0.0}
";

fn recipe(folder: &Path, shop: &str) -> PathBuf {
    let environment = folder.join("shop.py");
    std::fs::write(&environment, shop).unwrap();
    let row = |n: usize| format!("{}\n", json!({"prompt": format!("buy {n}"), "answer": n.to_string()}));
    let data = folder.join("rows.jsonl");
    std::fs::write(&data, (1..12).map(row).collect::<String>()).unwrap();
    let path = folder.join("own.toml");
    let model = folder.join("model");
    let text = format!(
        "[run]\nsteps = 1\n[model]\npath = {model:?}\n[data]\nfiles = [{data:?}]\nenvironment = {environment:?}\n\
         [sampling]\nprompts_per_step = 2\ngroup_size = 2\nmax_tokens = 320\n[turns]\nmax_turns = 2\n\
         max_turn_tokens = 60\n[evaluation]\nproblems = 0\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn dry_run(recipe: &Path) -> Command {
    let mut command = evenkeel(&["train", "--dry-run", "--no-timing", "--json"]);
    command.arg(recipe);
    command
}

#[test]
fn mistakes_in_an_environment_are_found_before_a_run() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path());
    let report = |shop: &str| -> Value {
        let output = dry_run(&recipe(dir.path(), shop)).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    };
    let whole = report(SHOP);
    assert_eq!((&whole["can_start"], &whole["problems"]), (&json!(true), &json!([])), "a low reward is no fault");
    assert!(!whole["notes"].to_string().contains("marked answer"), "it scores itself: {whole}");
    for (good, bad, words) in [
        (
            "class Shop",
            "import nothing_there\n\n\nclass Shop",
            &["data.environment: ", "No module named 'nothing_there'"][..],
        ),
        ("class Shop", "class Shop(", &["data.environment: ", "SyntaxError: ", "(shop.py, line "]),
        ("task[\"answer\"]", "task[\"anwser\"]", &["reset: ", "KeyError: 'anwser'"][..]),
        ("reset(self, task, seed)", "reset(self, task)", &["reset: ", "TypeError"]),
        ("self.left -= price", "self.left -= prize", &["a call of the tool `buy` with {", "NameError: name 'prize'"]),
        ("\"reward\": 0.0", "\"reward\": 7.0", &["score: ", "score gave 7.0, allowed: 0 to 1"]),
        ("\"reward\": 0.0", "\"reward\": self.lost", &["score: ", "AttributeError"]),
    ] {
        assert!(SHOP.contains(good), "{good}");
        let report = report(&SHOP.replace(good, bad));
        let problems = report["problems"].as_array().unwrap();
        let problem = problems.first().and_then(Value::as_str).unwrap_or_default();
        assert!(problems.len() == 1 && problem.contains("shop.py: "), "{bad}: {report}");
        assert!(words.iter().all(|word| problem.contains(word)), "{bad}: {problem}");
    }
    // What only a made-up argument explains keeps nobody from starting.
    let picky = report(&SHOP.replace("self.left -= price", "self.left -= {\"pear\": 1}[item]"));
    assert_eq!(picky["can_start"], true, "{picky}");
    assert!(picky["notes"].to_string().contains("KeyError: 'a'"), "{picky}");
}

#[test]
fn rows_without_gold_answers_are_no_fault_where_the_environment_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path());
    let recipe = recipe(dir.path(), &SHOP.replace("class Shop", "class Shop("));
    let row = |n: usize| format!("{}\n", json!({"prompt": format!("buy {n}"), "money": n}));
    std::fs::write(dir.path().join("rows.jsonl"), (1..12).map(row).collect::<String>()).unwrap();
    let report: Value = serde_json::from_slice(&dry_run(&recipe).output().unwrap().stdout).unwrap();
    let problems = report["problems"].as_array().unwrap();
    assert!(problems.len() == 1 && problems[0].as_str().unwrap().contains("SyntaxError"), "{report}");
}

#[test]
fn the_verdict_comes_first_then_problems_then_notes_and_the_run_is_timed_where_it_is_sampled() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path());
    let recipe = recipe(dir.path(), SHOP);
    let mut timed = evenkeel(&["train", "--dry-run"]);
    timed.arg(&recipe);
    let said = String::from_utf8(succeed(timed).stdout).unwrap();
    assert!(said.starts_with("the run can start\nnote: "), "{said}");
    assert!(said.contains("\ntime   about ") && said.contains(" a step, ") && said.contains(" in total"), "{said}");
    let mut timed = evenkeel(&["train", "--dry-run", "--json"]);
    timed.arg(&recipe);
    let report: Value = serde_json::from_slice(&succeed(timed).stdout).unwrap();
    let seconds = |name: &str| report["time"][name].as_f64().unwrap();
    assert!(seconds("step_seconds") > 0.0 && seconds("run_seconds") > seconds("step_seconds"), "{}", report["time"]);
    let output = dry_run(&recipe).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["time"]["unknown"], "it was not measured");
}

#[test]
fn a_model_that_cannot_be_used_hides_no_mistake_in_ones_own_code() {
    let dir = tempfile::tempdir().unwrap();
    let folder = model(dir.path());
    std::fs::remove_file(folder.join("chat_template.jinja")).unwrap();
    let [environment, reward, data, path] =
        ["shop.py", "reward.py", "rows.jsonl", "own.toml"].map(|name| dir.path().join(name));
    std::fs::write(&environment, SHOP.replace("task[\"answer\"]", "task[\"anwser\"]")).unwrap();
    std::fs::write(&reward, "def reward(completion, row):\n    return row[\"glod\"]\n").unwrap();
    let row = |n: usize| {
        let judge =
            if n.is_multiple_of(2) { ("environment", environment.to_str()) } else { ("verifier", Some("words")) };
        format!("{}\n", json!({"prompt": format!("buy {n}"), "answer": n.to_string(), judge.0: judge.1}))
    };
    std::fs::write(&data, (0..12).map(row).collect::<String>()).unwrap();
    let text = format!(
        "[run]\nsteps = 1\n[model]\npath = {folder:?}\n[data]\nfiles = [{data:?}]\nenvironments = [{environment:?}]\n\
         system_prompt = \"Be brief.\"\n[data.verifiers.words]\npath = {reward:?}\n[sampling]\nprompts_per_step = 2\n\
         group_size = 2\nmax_tokens = 320\n[turns]\nmax_turns = 2\n[evaluation]\nproblems = 0\n"
    );
    std::fs::write(&path, text).unwrap();
    let output = dry_run(&path).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let problems = report["problems"].to_string();
    assert_eq!(report["can_start"], false, "{problems}");
    for words in ["chat template", "KeyError: 'anwser'", "KeyError: 'glod' (line 2"] {
        assert!(problems.contains(words), "{words}: {problems}");
    }
    assert!(!problems.contains("Traceback"), "a problem is one line: {problems}");
}
