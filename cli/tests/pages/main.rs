//! The commands of README.md and docs/*.md. Each block has a class: it is run here, it is run by
//! `cargo test --release --workspace --features evenkeel/full --test pages -- --ignored`, or a reason says why it is run
//! elsewhere.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod blocks;
mod folder;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use blocks::{Class, blocks, faults, script};
use evenkeel_testkit::{Trial, run, test};
use folder::succeeds;
use libtest_mimic::Failed;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// README.md, CONTRIBUTING.md and docs/*.md: name and text.
fn pages() -> Vec<(String, String)> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let docs = docs.map(|name| format!("docs/{}", name.to_string_lossy())).filter(|name| name.ends_with(".md"));
    let mut names: Vec<String> = docs.chain(["README.md", "CONTRIBUTING.md"].map(str::to_owned)).collect();
    names.sort();
    let read = |name: String| {
        let text = std::fs::read_to_string(root().join(&name)).unwrap();
        (name, text)
    };
    names.into_iter().map(read).collect()
}

fn main() -> ExitCode {
    let mut trials = vec![
        test("every_block_of_commands_has_a_class", || {
            let faults: Vec<String> = pages().iter().flat_map(|(name, text)| faults(name, text)).collect();
            assert!(faults.is_empty(), "{}", faults.join("\n"));
        }),
        test("a_block_without_a_class_is_found", blocks::planted),
        test("every_block_in_python_is_python", || {
            for (name, text) in pages() {
                let python: String = blocks(&text)
                    .into_iter()
                    .filter(|block| block.info[0] == "python")
                    .map(|block| block.text)
                    .collect();
                let parse = "import ast, sys; ast.parse(sys.argv[1])";
                let output = Command::new("python3").args(["-c", parse, &python]).output().unwrap();
                assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            }
        }),
        test("a_command_that_fails_is_found", folder::planted),
    ];
    for (name, text) in pages() {
        let classes = blocks(&text).iter().filter_map(|block| block.class().ok()).collect::<Vec<Class>>();
        if classes.contains(&Class::Run) {
            let script = script(&name, &text, &[Class::Run]);
            let run = move || succeeds(&script, Class::Run).map_err(Failed::from);
            trials.push(Trial::test(format!("run::{name}"), run));
        }
        if classes.contains(&Class::Slow) {
            let script = script(&name, &text, &[Class::Run, Class::Slow]);
            let slow = move || succeeds(&script, Class::Slow).map_err(Failed::from);
            let trial = Trial::test(format!("slow::{name}"), slow).with_ignored_flag(true);
            trials.push(trial.with_kind("minutes, or a network"));
        }
    }
    run(trials)
}
