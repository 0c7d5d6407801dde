//! Commands on the pages: each is one that the program, Cargo, Docker or grpcurl takes, with settings, recipes, files,
//! packages, tests, services and calls that exist.

use std::path::Path;

use clap::Parser;

use super::blocks::{PageBlock, blocks, typed};
use super::pages::{self, Page};
use super::settings::of_service;
use super::{root, shell, tools};
use crate::arguments::{Arguments, Command, DataCommand};
use crate::documentation;

/// Languages of blocks that people type.
const TYPED: [&str; 3] = ["sh", "bash", "console"];
/// What others' programs take is theirs to say.
const OTHERS: &[&str] = &[
    "apt-get",
    // Loops of a shell.
    "for",
    "do",
    "done",
    "cat",
    "cp",
    "curl",
    "export",
    "cd",
    "echo",
    "git",
    "jq",
    "kill",
    "kind",
    "kubectl",
    "mkdir",
    "pip",
    "rustup",
    "sbatch",
    "sleep",
    "sudo",
    "tensorboard",
    "torchrun",
    "umask",
    "vllm",
    "wandb",
    "openssl",
    "printf",
];
/// Folders of the repository: whatever a command names below them is there.
const FOLDERS: &[&str] =
    &["cli/", "services/", "crates/", "bench/", "deploy/", "docs/", "examples/", "tests/", "proto/", ".ci/"];

/// What commands of the documentation make below them.
const MADE: [&str; 1] = ["deploy/certificates/"];

/// Blocks that are marked `untested`, and why: page, the words that they begin with.
const UNTESTED: &[(&str, &str, &str)] = &[("docs/judges.md", "[[criteria]]", "a rubric, and no recipe")];

/// Checks one command.
fn check(words: &[String]) -> Result<(), String> {
    let is_assignment = |word: &&String| {
        word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
    };
    let words: Vec<String> = words.iter().skip_while(is_assignment).cloned().collect();
    let Some(program) = words.first() else { return Ok(()) };
    words.iter().try_for_each(|word| exists(word))?;
    match program.as_str() {
        "evenkeel" | "target/release/evenkeel" => evenkeel(&words),
        "cargo" => tools::cargo(&words)?.map_or(Ok(()), |program| evenkeel(&program)),
        "docker" => tools::docker(&words),
        "grpcurl" => tools::grpcurl(&words),
        "python" | "python3" => Ok(()),
        // Of an environment.
        program if program.ends_with("/bin/python") || program.ends_with("/bin/pip") => Ok(()),
        program if OTHERS.contains(&program) || FOLDERS.iter().any(|folder| program.starts_with(folder)) => Ok(()),
        program if tools::packages().iter().any(|(name, _)| name == program) => Ok(()),
        program => Err(format!("{program}: a program that is not known here")),
    }
}

/// A path of the repository that is not there.
fn exists(word: &str) -> Result<(), String> {
    let path = word.trim_start_matches("./").trim_start_matches("$PWD/");
    // Behind the `-f FILE` of Docker, or within a flag.
    let path = path.rsplit_once('=').map_or(path, |(_, path)| path);
    let is_ours =
        FOLDERS.iter().any(|folder| path.starts_with(folder)) && !MADE.iter().any(|made| path.starts_with(made));
    if is_ours && !root().join(path).exists() { Err(format!("{path} is not in the repository")) } else { Ok(()) }
}

/// A command of the program: its flags, its recipes, its settings.
fn evenkeel(words: &[String]) -> Result<(), String> {
    let arguments = Arguments::try_parse_from(words).map_err(|error| error.to_string())?;
    match arguments.command {
        Command::Train(options) => settings(options.recipes(), &options.set),
        Command::Resume(options) => settings(&[], &options.set),
        Command::Compare(options) => {
            let mut varied = options.vary.iter().flat_map(|vary| {
                let (key, values) = vary.split_once('=').unwrap_or((vary, ""));
                values.split(',').map(|value| format!("{key}={value}")).collect::<Vec<_>>()
            });
            // The names may be runs or studies, which say by themselves when they are not there.
            let names: Vec<String> =
                options.names.iter().filter(|name| evenkeel_recipe::comes_with_program(name)).cloned().collect();
            settings(&names, &options.set)?;
            let is_known = |name: &&String| {
                evenkeel_recipe::comes_with_program(name) || name.ends_with(".toml") || name.contains('/')
            };
            if let Some(name) = options.names.iter().find(|name| !is_known(name)) {
                return Err(format!("{name} is no recipe"));
            }
            varied.try_for_each(|set| settings(&names, &[set]))
        }
        Command::Serve(options) => {
            recipes(&options.recipe)?;
            of_service(options.service, "", &options.set)
        }
        Command::Config(options) => {
            settings(&options.recipe, &options.set)?;
            let loaded = evenkeel_recipe::load(&[], &[]).map_err(|error| error.to_string())?;
            options.keys.iter().try_for_each(|key| match documentation::one(key, &loaded) {
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            })
        }
        Command::Model(arguments) => {
            arguments.options.map_or(Ok(()), |options| settings(&options.recipe, &options.set))
        }
        Command::Eval(options) => settings(&options.recipe, &options.set),
        Command::Data(DataCommand::Check(options)) => settings(&options.recipe, &options.set),
        _ => Ok(()),
    }
}

/// Recipes that exist: built in, or in the repository. A file of the reader's own is not read.
fn recipes(names: &[String]) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for name in names {
        if evenkeel_recipe::comes_with_program(name) {
            found.push(name.clone());
        } else if root().join(name).exists() {
            found.push(root().join(name).display().to_string());
        } else if Path::new(name).extension().is_none_or(|extension| extension != "toml") {
            return Err(format!("{name} is no recipe"));
        }
    }
    Ok(found)
}

fn settings(names: &[String], set: &[String]) -> Result<(), String> {
    let names = recipes(names)?;
    let loaded = evenkeel_recipe::load(&names, set);
    loaded.map(drop).map_err(|error| error.to_string())
}

fn is_untested(block: &PageBlock) -> bool {
    UNTESTED.iter().any(|(page, begin, _)| {
        block.place.split(':').next() == Some(page) && block.text.trim_start().starts_with(begin)
    })
}

/// What is wrong with the commands of these pages.
fn faults(pages: &[Page]) -> Vec<String> {
    let mut faults = Vec::new();
    for block in pages.iter().flat_map(blocks) {
        let mut fault = |why: &str| faults.push(format!("{}: {why}", block.place));
        let is_typed = TYPED.contains(&block.language.as_str());
        let looks_typed = |line: &str| {
            ["evenkeel ", "cargo ", "docker ", "$ ", "grpcurl ", "python3 "]
                .iter()
                .any(|program| line.starts_with(program))
        };
        match () {
            () if block.is("untested") => {
                if !is_untested(&block) {
                    fault("is marked untested, and no reason stands in UNTESTED");
                }
            }
            () if is_typed => match shell::commands(&typed(&block)) {
                Err(why) => fault(&why),
                Ok(commands) => {
                    for command in commands {
                        if let Err(why) = check(&command) {
                            fault(&format!("{}: {}", command.join(" "), why.trim()));
                        }
                    }
                }
            },
            () if matches!(block.language.as_str(), "" | "text") && block.text.lines().any(looks_typed) => {
                fault("has commands and is no block of sh or console");
            }
            () if block.language == "json" => {
                let whole = serde_json::from_str::<serde_json::Value>(&block.text).is_ok();
                if !whole && !block.text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()) {
                    fault("is not JSON");
                }
            }
            () => {}
        }
    }
    faults
}

#[test]
fn every_command_on_a_page_is_one_that_is_taken() {
    let faults = faults(&pages::all());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_reason_for_not_testing_a_block_is_used() {
    let blocks: Vec<PageBlock> = pages::all().iter().flat_map(blocks).filter(|block| block.is("untested")).collect();
    for reason in UNTESTED {
        let (page, begin, why) = reason;
        let is_used =
            blocks.iter().any(|block| block.place.starts_with(page) && block.text.trim_start().starts_with(begin));
        assert!(is_used && !why.is_empty(), "{page}: {begin}");
    }
}

#[test]
fn a_planted_fault_is_found() {
    let found = |language: &str, text: &str| faults(&[Page::new("a.md", &format!("```{language}\n{text}\n```\n"))]);
    for right in [
        "evenkeel train dapo mine.toml --set sampling.group_size=4 --dry-run",
        "cargo run --release -- config sampling.max_tokens",
        "cargo test --release --workspace --test suite what_init_writes",
        "docker compose -f docker-compose.yml -f deploy/compose.tls.yml up --scale reward=3",
        "grpcurl -plaintext -d '{}' 127.0.0.1:50054 evenkeel.v1.Orchestrator/ListRuns",
        "A=b python3 bench/code/run.py > out 2> err",
    ] {
        assert_eq!(found("sh", right), [""; 0], "{right}");
    }
    for wrong in [
        "evenkeel train --dry-ran",
        "evenkeel trian",
        "evenkeel show",
        "cargo run --release -- train dappo",
        "evenkeel train --set sampling.group_sise=4",
        "evenkeel train --set sampling.group_size=four",
        "evenkeel compare arithmetic --vary learner.objective.aggregation=token,tokens",
        "evenkeel serve engine --set listens=1",
        "evenkeel config sampling.max_token",
        "cargo test -p evenkeel-modle",
        "cargo test --release -p evenkeel --test suit",
        "cargo test --release -p evenkeel --test suite there_is_no_such_test_as_this_one",
        "docker compose -f deploy/compose.none.yml up",
        "docker compose up --scale verifiers=3",
        "grpcurl -plaintext 127.0.0.1:50054 evenkeel.v1.Orchestrator/ListRun",
        "grpcurl -plaintext -d '{' 127.0.0.1:50054 evenkeel.v1.Orchestrator/ListRuns",
        "python3 bench/code/ran.py",
        "evenkele train",
        "evenkeel train 'a",
    ] {
        assert_eq!(found("sh", wrong).len(), 1, "{wrong}");
    }
    assert_eq!(found("console", "$ evenkeel trian\nevenkeel said").len(), 1);
    assert_eq!(found("", "evenkeel train").len(), 1, "it hides from the check");
    assert_eq!(found("sh untested", "evenkeel trian").len(), 1, "it has no reason");
    assert_eq!(found("json", "{").len(), 1);
}
