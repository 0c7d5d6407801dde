//! Servers as an operator meets them: settings from the environment, health from outside, one address for many workers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::net::TcpListener;
use std::process::Command;

use crate::support::{Process, evenkeel, refused, small, succeed, wait_for};

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn health(url: &str) -> Command {
    evenkeel(&["health", url])
}

fn is_well(url: &str) -> bool {
    health(url).output().unwrap().status.success()
}

#[test]
fn a_service_with_a_recipe_takes_its_own_settings_from_the_environment() {
    let port = free_port();
    let mut command = evenkeel(&["serve", "reward", "--recipe", small().to_str().unwrap()]);
    command.env("EVENKEEL__SERVER__LISTEN", format!("127.0.0.1:{port}"));
    let _reward = Process::start(command);
    wait_for("the service", || is_well(&format!("http://127.0.0.1:{port}")));
}

#[test]
fn a_key_of_the_environment_that_no_service_has_is_refused() {
    let mut command = evenkeel(&["serve", "reward", "--recipe", small().to_str().unwrap()]);
    command.env("EVENKEEL__SERVER__LISTENING", "127.0.0.1:1");
    let message = refused(command);
    assert!(message.contains("server.listening") && message.contains("`server.listen`"), "{message}");
}

#[test]
fn health_is_one_line_and_an_exit_status() {
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let metrics = free_port();
    let message = refused(health(&url));
    assert!(message.starts_with(&format!("error: cannot connect to {url}")), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");

    let _reward = Process::start(evenkeel(&[
        "serve",
        "reward",
        "--set",
        &format!("server.listen=127.0.0.1:{port}"),
        "--metrics",
        &format!("127.0.0.1:{metrics}"),
    ]));
    wait_for("the service", || is_well(&url));
    assert_eq!(String::from_utf8(succeed(health(&url)).stdout).unwrap(), format!("{url} is serving\n"));
    let health_of = |service: &str| evenkeel(&["health", &url, "--service", service]);
    succeed(health_of("evenkeel.v1.Reward"));
    let message = refused(health_of("evenkeel.v1.Learner"));
    assert!(message.contains("has no service `evenkeel.v1.Learner`"), "{message}");

    let page = format!("http://127.0.0.1:{metrics}/metrics");
    assert_eq!(String::from_utf8(succeed(health(&page)).stdout).unwrap(), format!("{page} answers 200\n"));
    let message = refused(health(&format!("http://127.0.0.1:{metrics}/nothing")));
    assert!(message.contains("it answers 404"), "{message}");
    let message = refused(evenkeel(&["health", &url, "reward"]));
    assert!(message.contains("URL is \"reward\", allowed: http://HOST:PORT"), "{message}");
}

#[test]
fn a_gateway_serves_in_front_of_its_workers() {
    let [worker, gateway] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let listen = |address: &str| format!("server.listen={address}");
    let _worker = Process::start(evenkeel(&["serve", "reward", "--set", &listen(&worker)]));
    let endpoints = format!("endpoints=[\"http://{worker}\"]");
    let _gateway =
        Process::start(evenkeel(&["serve", "gateway", "--set", &listen(&gateway), "--set", endpoints.as_str()]));
    wait_for("the gateway", || is_well(&format!("http://{gateway}")));
    let dir = tempfile::tempdir().unwrap();
    let rows = dir.path().join("rows.jsonl");
    std::fs::write(&rows, "{\"id\": \"1\", \"gold\": \"4\", \"prediction\": \"2+2\"}\n").unwrap();
    let mut verify = evenkeel(&["verify", "math", "--endpoint", &format!("http://{gateway}"), "--input"]);
    verify.arg(&rows);
    let verdicts = String::from_utf8(succeed(verify).stdout).unwrap();
    assert!(verdicts.contains("\"outcome\":\"equal\""), "{verdicts}");

    let message = refused(evenkeel(&["serve", "gateway"]));
    assert!(message.contains("`endpoints` is empty"), "{message}");
}

#[test]
fn a_model_that_a_recipe_names_is_linked_for_services_that_are_given_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let model = crate::support::written_model(dir.path());
    let out = dir.path().join("start/model");
    let mut command = evenkeel(&["model", "--recipe", small().to_str().unwrap(), "--set"]);
    command.arg(format!("model.path={}", model.display())).arg("--out").arg(&out);
    succeed(command);
    assert_eq!(std::fs::canonicalize(out).unwrap(), std::fs::canonicalize(model).unwrap());
}
