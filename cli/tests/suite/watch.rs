//! A run that is followed from a terminal.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Process, evenkeel, succeed, train};

/// A run with few steps, and the address of its page.
fn with_page(out: &Path, settings: &[&str]) -> (Process, String) {
    let mut command: Command = train(out);
    command.args(["--set", "warm_start.steps=1", "--set", "evaluation.before=false"]);
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut lines = BufReader::new(child.stderr.take().expect("it was piped")).lines();
    let url = lines.find_map(|line| {
        let line = line.expect("messages are text");
        line.split_once("page at ").map(|(_, url)| url.trim().to_owned())
    });
    // The rest is read, so that a full pipe stops nothing.
    std::thread::spawn(move || lines.for_each(drop));
    (Process(child), url.expect("the address of the page"))
}

#[test]
fn a_terminal_that_follows_a_page_sees_the_last_step_and_ends_with_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let (mut process, url) = with_page(&dir.path().join("run"), &[]);
    let said = String::from_utf8(succeed(evenkeel(&["watch", &url])).stdout).unwrap();
    assert!(said.contains("step 1/6") && said.contains("step 6/6"), "{said}");
    assert!(said.contains("evaluation after 6 steps"), "{said}");
    assert!(process.0.wait().unwrap().success());
}

#[test]
fn a_run_that_failed_ends_its_terminal_with_1() {
    let dir = tempfile::tempdir().unwrap();
    // An update without measure, after which no engine can sample.
    let settings = [
        "warm_start.steps=60",
        "learner.optimizer.learning_rate=1e30",
        "learner.optimizer.warmup_updates=0",
        "services.outage_timeout=4s",
    ];
    let (mut process, url) = with_page(&dir.path().join("run"), &settings);
    let output = evenkeel(&["watch", &url]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!process.0.wait().unwrap().success());
}

#[test]
fn a_directory_is_followed_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let (mut process, _) = with_page(&out, &[]);
    let mut command = evenkeel(&["watch"]);
    command.arg(&out);
    let said = String::from_utf8(succeed(command).stdout).unwrap();
    assert!(said.contains("step 6/6"), "{said}");
    assert!(process.0.wait().unwrap().success());
}
