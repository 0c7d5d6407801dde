//! The commands of the documentation that are cheap enough to run: blocks of README.md and docs/ that are marked `run`,
//! in their order, in one folder for each page.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// In place of the program: what takes minutes is done with few steps. Everything else is passed on as it is.
const PROGRAM: &str = r#"#!/usr/bin/env bash
case "$*" in
  train) exec "$EVENKEEL" train --steps 2 --set warm_start.steps=2 --set evaluation.problems=8 ;;
  "train "*"--steps"*) exec "$EVENKEEL" "$@" --set warm_start.steps=2 --set evaluation.problems=8 ;;
  "train "*"--dry-run"*) exec "$EVENKEEL" "$@" ;;
  "train "*) exec "$EVENKEEL" "$@" --steps 6 ;;
  *) exec "$EVENKEEL" "$@" ;;
esac
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The blocks of a page whose first line, after the fence, is this, one after the other.
fn blocks(page: &str, info: &str) -> String {
    let mut text = String::new();
    let mut is_open = false;
    for line in page.lines() {
        if let Some(found) = line.strip_prefix("```") {
            is_open = !is_open && found.trim() == info;
        } else if is_open {
            writeln!(text, "{line}").unwrap();
        }
    }
    text
}

/// Whether the blocks in Python are Python.
fn check_python(name: &str, page: &str, python: &Path) -> Result<(), String> {
    const PARSE: &str = "import ast, sys; ast.parse(sys.argv[1])";
    let output = Command::new(python).args(["-c", PARSE, &blocks(page, "python")]).output().unwrap();
    if output.status.success() { Ok(()) } else { Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr))) }
}

/// Runs the marked blocks of a page; returns what was said where one fails.
fn run(name: &str, page: &str, python: &Path) -> Result<(), String> {
    check_python(name, page, python)?;
    let script = blocks(page, "sh run");
    if script.is_empty() {
        return Ok(());
    }
    let dir = tempfile::tempdir().unwrap();
    let programs = dir.path().join("programs");
    let folder = dir.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::create_dir(&programs).unwrap();
    let program = programs.join("evenkeel");
    std::fs::write(&program, PROGRAM).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&program).status().unwrap().success());
    let path = [programs.as_path(), python.parent().unwrap()].map(|path| path.display().to_string()).join(":");
    let mut command = Command::new("bash");
    command.args(["-eu", "-o", "pipefail", "-c", &script]).current_dir(&folder).stdin(Stdio::null());
    command.env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap()));
    command.env("EVENKEEL", env!("CARGO_BIN_EXE_evenkeel"));
    let output = command.output().unwrap();
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{name}:\n{script}\n{}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// Every page with a marked block succeeds; a wrong flag, planted in the last command, does not.
pub(super) fn succeed(python: &Path) {
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    paths.push(root().join("README.md"));
    let mut count = 0;
    let mut faults = Vec::new();
    for path in paths {
        let page = std::fs::read_to_string(&path).unwrap();
        count += usize::from(!blocks(&page, "sh run").is_empty());
        faults.extend(run(&path.display().to_string(), &page, python).err());
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count >= 2, "{count} pages have blocks that are marked `run`");
    assert!(run("planted", "```python\ndef reward(:\n```\n", python).is_err());
    assert!(run("planted", "```sh run\nevenkeel config --list\nevenkeel config --lists\n```\n", python).is_err());
}
