//! An environment in a Python file of one's own, and programs as a tool, through the whole program: the example, a tiny
//! model, and the file as an input of the run.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_run::read_rollouts;
use serde_json::{Value, json};

use crate::episodes::{call, model};
use crate::support::{Process, count_lines, evenkeel, lines, resume, succeed, train_recipe, wait_for};

/// Codes of two digits, with a first guess to imitate, and products, with a program.
fn rows(path: &Path, environment: &Path) {
    let mut rows = String::new();
    for n in 0..36_u32 {
        let code = 11 + n / 6 * 10 + n % 6;
        let row = json!({
            "prompt": format!("code {n}"), "answer": code.to_string(), "environment": environment,
            "demonstration": call("guess", "\"code\": \"12\""),
        });
        let product = json!({
            "prompt": format!("{n}: 6*7="), "answer": 42, "environment": "python",
            "demonstration": call("python", "\"code\": \"6*7\""),
        });
        writeln!(rows, "{row}\n{product}").unwrap();
    }
    std::fs::write(path, rows).unwrap();
}

/// A recipe in a folder, with the model, the data and the environment that it names.
fn recipe(folder: &Path) -> (PathBuf, PathBuf) {
    let model = model(folder);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/mastermind.py");
    let environment = folder.join("mastermind.py");
    // The example, in which a guess earns something as well, as many write Python.
    let mut example = std::fs::read_to_string(example).unwrap();
    for (written, instead) in [
        ("self.guesses += 1\n", "self.guesses += 1\n        self.earn(0.125)\n"),
        ("import random\n", "from __future__ import annotations\n\nimport asyncio\nimport random\n"),
        ("    def guess(self, code: str) -> str:", "    async def guess(self, code: str) -> str:"),
        ("        placed = sum(", "        await asyncio.sleep(0)\n        placed = sum("),
    ] {
        assert!(example.contains(written), "{written}");
        example = example.replacen(written, instead, 1);
    }
    std::fs::write(&environment, example).unwrap();
    let data = folder.join("rows.jsonl");
    let path = folder.join("own.toml");
    rows(&data, &environment);
    let text = format!(
        "[run]\nseed = 3\nsteps = 4\n[model]\npath = {model:?}\n[data]\nfiles = [{data:?}]\n\
         environments = [{environment:?}, \"python\"]\n\
         [sampling]\nprompts_per_step = 4\ngroup_size = 4\nmax_tokens = 320\n[turns]\nmax_turns = 3\n\
         max_turn_tokens = 90\n\
         [warm_start]\nsteps = 80\nexamples_per_step = 16\n[evaluation]\nproblems = 4\n[checkpoint]\nevery = 2\n\
         [learner.compute]\nthreads = 2\n[learner.optimizer]\nlearning_rate = 1.5e-4\n[learner.supervised]\n\
         learning_rate = 2e-3\ntotal_updates = 80\n"
    );
    std::fs::write(&path, text).unwrap();
    (path, environment)
}

/// Kills a run after two steps, and resumes it with a file that was edited: it goes on, and says so of itself.
pub(crate) fn is_killed_and_resumed_with_its_edited_file(file: &Path, train: Command, run: &Path) {
    let process = Process::start(train);
    wait_for("two steps", || count_lines(&run.join("metrics.jsonl")) >= 2);
    process.kill();
    let text = std::fs::read_to_string(file).unwrap();
    // Nothing that it does is another.
    std::fs::write(file, format!("{text}\n")).unwrap();
    let said = String::from_utf8(succeed(resume(run)).stderr).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(said.contains("continues with a changed input: environment") && said.contains(name), "{said}");
    let recorded: Value = serde_json::from_slice(&std::fs::read(run.join("inputs.json")).unwrap()).unwrap();
    let change = recorded["accepted"][0]["changes"][0].as_str().unwrap();
    assert!(change.contains(name) && change.matches("sha256:").count() == 2, "{recorded}");
    let report = std::fs::read_to_string(run.join("report.html")).unwrap();
    assert!(report.contains("it continued with changed inputs: environment"));
}

#[test]
fn a_run_in_an_environment_of_ones_own_is_played_killed_resumed_with_its_edited_file() {
    let dir = tempfile::tempdir().unwrap();
    let (recipe, environment) = recipe(dir.path());
    let mut dry_run = train_recipe(&recipe, &dir.path().join("dry"));
    dry_run.args(["--dry-run", "--json", "--no-timing"]);
    let report: Value = serde_json::from_slice(&succeed(dry_run).stdout).unwrap();
    let sets = report["data"]["sets"].as_array().unwrap();
    let planned = sets.iter().filter_map(|set| set["longest_tokens"].as_f64()).fold(0.0, f64::max);

    let whole = dir.path().join("whole");
    let killed = dir.path().join("killed");
    succeed(train_recipe(&recipe, &whole));
    let found = lines(&whole).iter().filter_map(|line| line.get("prompt_length/max")?.as_f64()).fold(0.0, f64::max);
    assert!(found <= planned && planned < found + 4.0, "with the tools: {found}, the dry run has {planned}");
    let rollouts: Vec<_> = (1..=4).flat_map(|step| read_rollouts(&whole, step).unwrap()).collect();
    assert_eq!(rollouts.len(), 4 * 16);
    assert!(rollouts.iter().all(|rollout| rollout.reward.is_some()), "no episode is invalid");
    let answers = rollouts.iter().flat_map(|rollout| &rollout.turns).filter(|turn| turn.role == "tool");
    let answers: Vec<_> = answers.map(|turn| turn.text.as_str()).collect();
    assert!(answers.iter().any(|text| text.contains("in place")), "the file answers: {answers:?}");
    assert!(answers.contains(&"42"), "programs are run: {answers:?}");
    let earned: Vec<_> = rollouts
        .iter()
        .flat_map(|rollout| {
            rollout.turns.iter().filter(|turn| turn.reward.is_some()).map(move |turn| (rollout.step, turn))
        })
        .collect();
    assert!(!earned.is_empty() && earned.iter().all(|(_, turn)| turn.role == "assistant"), "guesses earn: {earned:?}");
    let step = earned[0].0;
    let mut show = evenkeel(&["show", "--train", "--step", &step.to_string()]);
    show.arg(&whole);
    let shown = String::from_utf8(succeed(show).stdout).unwrap();
    let of_step = earned.iter().filter(|(of, _)| *of == step).count();
    assert_eq!(shown.matches("tokens, sampled · reward 0.").count(), of_step, "{shown}");

    is_killed_and_resumed_with_its_edited_file(&environment, train_recipe(&recipe, &killed), &killed);
    assert_eq!(lines(&killed), lines(&whole), "the same seeds, the same episodes");
}

#[test]
fn an_environment_that_cannot_be_played_is_refused_before_the_first_step() {
    let dir = tempfile::tempdir().unwrap();
    let (recipe, environment) = recipe(dir.path());
    std::fs::write(&environment, "print('no environment')").unwrap();
    let out = dir.path().join("run");
    let refused = train_recipe(&recipe, &out).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("it has 0 subclasses of Environment"), "{said}");
    assert!(!refused.status.success() && !out.exists(), "nothing is left of it");
    let mut misspelt = train_recipe(&recipe, &out);
    misspelt.args(["--set", "data.environments=[\"calculater\"]"]);
    let said = String::from_utf8_lossy(&misspelt.output().unwrap().stderr).into_owned();
    assert!(said.contains("one of calculator, guess-number, python, the path of a Python file (*.py)"), "{said}");
}

#[test]
fn init_writes_an_environment_that_is_loaded_and_played_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut init = evenkeel(&["init", "--environment"]);
    init.current_dir(dir.path());
    let said = String::from_utf8(succeed(init).stdout).unwrap();
    assert!(said.contains("environment.py, evenkeel_environment.py"), "{said}");
    // As a user tries it: without the run.
    let script = "
from environment import Riddle
from evenkeel_environment import Action, Call
riddle = Riddle()
riddle.reset({'answer': 'echo'}, 1)
print(riddle.step(Action('', [Call('letter', {'number': 2}, 'a'), Call('letter', {'number': 9}, 'b')])))
print(riddle.step(Action('It is echo')), riddle.score()['reward'])
";
    let mut python = Command::new("python3");
    python.args(["-c", script]).current_dir(dir.path());
    let printed = String::from_utf8(succeed(python).stdout).unwrap();
    assert_eq!(printed, "['c', 'it has no such letter']\nNone 1.0\n");
}
