//! Commands of the tools that the pages use: what they name in this repository exists.

use std::path::{Path, PathBuf};

use super::{pages, root};

/// The packages of the workspace: name and folder.
pub(super) fn packages() -> Vec<(String, PathBuf)> {
    let manifest: toml::Table = std::fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let members = manifest["workspace"]["members"].as_array().unwrap();
    let package = |member: &toml::Value| {
        let folder = root().join(member.as_str().unwrap());
        let text: toml::Table = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        (text["package"]["name"].as_str().unwrap().to_owned(), folder)
    };
    members.iter().map(package).collect()
}

fn value<'a>(words: &'a [String], flag: &str) -> Option<&'a String> {
    words.iter().position(|word| word == flag).and_then(|at| words.get(at + 1))
}

/// The files of a package's test target; none where it has no such target.
fn sources_of_test(package: &Path, test: &str) -> Vec<PathBuf> {
    let tests = package.join("tests");
    let file = tests.join(format!("{test}.rs"));
    let folder = tests.join(test);
    match (file.exists(), folder.join("main.rs").exists()) {
        (true, _) => vec![file],
        (false, true) => pages::files(&folder, ".rs"),
        (false, false) => Vec::new(),
    }
}

/// Packages, targets and tests that exist. Where it runs this program, how: `cargo run --release -- train` is `evenkeel
/// train`.
pub(super) fn cargo(words: &[String]) -> Result<Option<Vec<String>>, String> {
    let (own, theirs) = match words.iter().position(|word| word == "--") {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &[][..]),
    };
    let package = value(own, "-p");
    let all = packages();
    let folder = match package {
        Some(name) => match all.iter().find(|(found, _)| found == name) {
            Some((_, folder)) => Some(folder.clone()),
            None => return Err(format!("no package is called {name}")),
        },
        None => None,
    };
    if own.get(1).is_some_and(|word| word == "run") && package.is_none() {
        return Ok(Some([&["evenkeel".to_owned()][..], theirs].concat()));
    }
    if let Some(test) = value(own, "--test") {
        let folders: Vec<&PathBuf> = match &folder {
            Some(folder) => vec![folder],
            None => all.iter().map(|(_, folder)| folder).collect(),
        };
        let sources: Vec<PathBuf> = folders.iter().flat_map(|folder| sources_of_test(folder, test)).collect();
        if sources.is_empty() {
            return Err(format!("no test target is called {test}"));
        }
        let at = own.iter().position(|word| word == test).unwrap_or(0);
        if let Some(filter) = own[at + 1..].iter().chain(theirs.first()).find(|word| !word.starts_with('-')) {
            let text: String = sources.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
            if !filter.split("::").all(|part| text.contains(part)) {
                return Err(format!("no test of {test} is called {filter}"));
            }
        }
    }
    Ok(None)
}

/// Files and services of compose.
pub(super) fn docker(words: &[String]) -> Result<(), String> {
    let compose = std::fs::read_to_string(root().join("docker-compose.yml")).unwrap();
    if words.get(1).is_none_or(|word| word != "compose") {
        return Ok(());
    }
    for pair in words.windows(2).filter(|pair| pair[0] == "-f") {
        if !root().join(&pair[1]).exists() {
            return Err(format!("{} is not in the repository", pair[1]));
        }
    }
    let scaled = value(words, "--scale").and_then(|scale| scale.split_once('=')).map(|(service, _)| service);
    let copied = words.iter().filter_map(|word| word.split_once(":/")).map(|(service, _)| service);
    for service in scaled.into_iter().chain(copied) {
        if !compose.contains(&format!("\n  {service}:")) {
            return Err(format!("docker-compose.yml has no service {service}"));
        }
    }
    Ok(())
}

/// Calls and types of the protocol.
pub(super) fn grpcurl(words: &[String]) -> Result<(), String> {
    let proto: String = pages::files(&root().join("proto/evenkeel"), ".proto")
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    for name in words.iter().filter_map(|word| word.strip_prefix("evenkeel.v1.")) {
        let is_there = match name.split_once('/') {
            Some((service, call)) => {
                let body =
                    proto.split_once(&format!("\nservice {service} {{")).and_then(|(_, rest)| rest.split_once("\n}"));
                body.is_some_and(|(body, _)| body.contains(&format!("rpc {call}(")))
            }
            None => ["message", "service", "enum"].iter().any(|kind| proto.contains(&format!("\n{kind} {name} {{"))),
        };
        if !is_there {
            return Err(format!("the protocol has no {name}"));
        }
    }
    if let Some(Err(error)) =
        value(words, "-d").filter(|json| *json != "@").map(|json| serde_json::from_str::<serde_json::Value>(json))
    {
        return Err(format!("-d is not JSON: {error}"));
    }
    Ok(())
}
