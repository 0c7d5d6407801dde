//! The first examples of the pages on rewards and environments, as they are printed: with the rows that they speak of, a
//! run starts and takes a step.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::episodes::model;
use crate::support::{evenkeel, lines, succeed, train_recipe};

/// The first block of a page that begins with this fence and has that line.
fn example(page: &str, fence: &str, line: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let fence = format!("```{fence}\n");
    let mut blocks = text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.find(|block| block.contains(line)).unwrap_or_else(|| panic!("{page}: {line}")).to_owned()
}

/// A recipe with the first `data` of a page, for rows in the same folder.
fn recipe(folder: &Path, rows: &[Value], data: &str) -> PathBuf {
    let model = model(folder);
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    std::fs::write(folder.join("rows.jsonl"), text).unwrap();
    let path = folder.join("own.toml");
    let text = format!(
        "[run]\nsteps = 1\n[model]\npath = {model:?}\n{data}\n[sampling]\nprompts_per_step = 2\ngroup_size = 2\n\
         max_tokens = 320\n[turns]\nmax_turns = 2\nmax_turn_tokens = 60\n[evaluation]\nproblems = 2\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn starts_and_takes_a_step(folder: &Path, recipe: &Path) {
    let mut dry_run = evenkeel(&["train", "--dry-run", "--no-timing"]);
    dry_run.arg(recipe).current_dir(folder);
    succeed(dry_run);
    let run = folder.join("run");
    let mut train = train_recipe(recipe, &run);
    train.current_dir(folder);
    succeed(train);
    assert_eq!(lines(&run).len(), 3, "an evaluation, the step, an evaluation");
}

#[test]
fn the_shop_of_the_page_on_environments_plays_rows_with_money_and_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("shop.py"), example("environments.md", "python", "class Shop")).unwrap();
    let rows: Vec<Value> = (1..9).map(|money| json!({"prompt": "Buy bread.", "money": money})).collect();
    let data = "[data]\nfiles = [\"rows.jsonl\"]\nenvironment = \"shop.py\"";
    starts_and_takes_a_step(dir.path(), &recipe(dir.path(), &rows, data));
}

#[test]
fn the_reward_of_the_page_on_verifiers_judges_rows_with_the_settings_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("reward.py"), example("verifiers.md", "python", "def reward")).unwrap();
    let rows: Vec<Value> =
        (1..9).map(|n| json!({"prompt": format!("Say {n}."), "answer": n.to_string(), "unit": ["m"]})).collect();
    let data = example("verifiers.md", "toml", "verifier = \"reward\"");
    let data = data.replace("[data]\n", "[data]\nfiles = [\"rows.jsonl\"]\n");
    starts_and_takes_a_step(dir.path(), &recipe(dir.path(), &rows, &data));
}
