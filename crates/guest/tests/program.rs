//! The builder of the interpreter, run as a worker runs it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::process::Command;

use evenkeel_sandbox::guest::{self, Form};

fn builder() -> Command {
    Command::new(env!("CARGO_BIN_EXE_evenkeel-guest"))
}

#[test]
fn the_printed_folder_contains_the_interpreter() {
    let output = builder().output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folder = String::from_utf8(output.stdout).unwrap();
    assert!(guest::is_whole(&std::path::Path::new(folder.trim_end()).join(Form::Timed.file_name())));
}

#[test]
fn a_missing_python_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        builder().arg("--dir").arg(folder.path()).env("EVENKEEL_PYTHON", "/nonexistent/python3").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("Python 3.9 or newer") && said.contains("/nonexistent/python3"), "{said}");
}
