//! What the documentation says about ports, and what the image is built from, held against the services and the
//! workspace.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// README.md and every page of docs/, by name.
fn pages() -> Vec<(String, String)> {
    let mut paths = vec![root().join("README.md")];
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    paths.extend(docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    paths.into_iter().map(read).collect()
}

/// Commands of a page, lines that end in a backslash joined with the next.
fn commands(text: &str) -> Vec<String> {
    text.replace("\\\n", " ").lines().map(str::to_owned).collect()
}

/// Ports of services by name, as commands of this form start them: `serve NAME ... server.listen=HOST:PORT`.
fn listening(commands: &[String]) -> BTreeMap<String, String> {
    let port = |command: &String| {
        let (_, after) = command.split_once("serve ")?;
        let name = after.split_whitespace().next()?.to_owned();
        let (_, address) = command.split_once("server.listen=")?;
        let port = address.split_once(':')?.1;
        Some((name, port.chars().take_while(char::is_ascii_digit).collect()))
    };
    commands.iter().filter_map(port).collect()
}

/// The port and, where it names one, the service of each documented call: `grpcurl ... HOST:PORT
/// evenkeel.v1.NAME/Method`.
fn calls(commands: &[String]) -> Vec<(String, Option<String>)> {
    let mut calls = Vec::new();
    for command in commands.iter().filter(|command| command.contains("grpcurl -")) {
        let mut port = None;
        let mut service = None;
        for word in command.split_whitespace() {
            if let Some((host, digits)) = word.rsplit_once(':')
                && matches!(host, "127.0.0.1" | "localhost")
            {
                port = Some(digits.to_owned());
            }
            if let Some(method) = word.strip_prefix("evenkeel.v1.").filter(|method| method.contains('/')) {
                service = method.split('/').next().map(str::to_lowercase);
            }
        }
        if let Some(port) = port {
            calls.push((port, service));
        }
    }
    calls
}

#[test]
fn every_documented_call_goes_to_the_port_on_which_its_service_listens() {
    let operations = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let ports = listening(&commands(&operations));
    assert_eq!(ports.keys().collect::<Vec<_>>(), ["environment", "generation", "learner", "orchestrator", "reward"]);
    let mut seen = 0;
    for (page, text) in pages() {
        for (port, service) in calls(&commands(&text)) {
            seen += 1;
            match service {
                Some(service) => assert_eq!(ports.get(&service), Some(&port), "{page}: {service}"),
                None => assert!(ports.values().any(|known| *known == port), "{page}: nothing listens on {port}"),
            }
        }
    }
    assert!(seen >= 6, "{seen} calls were found");
}

/// Ports of containers by service: each has `command: [serve, NAME, ...]` and, below, the address in its environment.
fn listening_in_containers(compose: &str) -> BTreeMap<String, String> {
    let mut ports = BTreeMap::new();
    let mut service = None;
    for line in compose.lines() {
        if let Some((_, after)) = line.split_once("command: [serve, ") {
            service = after.split([',', ']']).next().map(str::to_owned);
        }
        if let Some((_, address)) = line.split_once("EVENKEEL__SERVER__LISTEN: ")
            && let Some((_, port)) = address.rsplit_once(':')
        {
            ports.insert(service.take().expect("a service has a command"), port.to_owned());
        }
    }
    ports
}

#[test]
fn containers_listen_on_the_ports_that_the_documentation_names() {
    let operations = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let compose = std::fs::read_to_string(root().join("docker-compose.yml")).unwrap();
    let mut containers = listening_in_containers(&compose);
    // It stands in for the reward service, on the same port.
    assert_eq!(containers.remove("gateway"), containers.get("reward").cloned());
    assert_eq!(containers, listening(&commands(&operations)));
}

#[test]
fn the_image_is_built_with_every_crate_of_the_workspace() {
    let manifest: toml::Table = std::fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let ignored = std::fs::read_to_string(root().join(".dockerignore")).unwrap();
    for member in manifest["workspace"]["members"].as_array().unwrap() {
        let folder = member.as_str().unwrap().split('/').next().unwrap();
        assert!(ignored.lines().any(|line| line == format!("!{folder}")), ".dockerignore keeps out {folder}");
    }
}
