//! `--lint-golds`: gold answers that a data set cannot train with.

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use evenkeel_math::{Policy, lint};
use serde_json::{Value, json};

use super::reader;
use super::rows::{Fields, golds};

/// Where the text of a task may stand, the first that is there.
const PROBLEM: &[&str] = &["problem", "question", "prompt"];

/// Prints a row for each unsound gold answer, and fails where there is one.
pub(super) fn lint_golds(path: &Path, fields: &Fields, policy: &Policy, output: &mut dyn Write) -> Result<ExitCode> {
    let (mut count, mut unsound) = (0, 0);
    for (number, line) in reader(path, "--lint-golds")?.lines().enumerate() {
        let place = || format!("{} line {}", path.display(), number + 1);
        let line = line.with_context(place)?;
        if line.trim().is_empty() {
            continue;
        }
        let row: Value = serde_json::from_str(&line).context("no JSON").with_context(place)?;
        let id = row.get("id").cloned().unwrap_or_else(|| (number + 1).into());
        // A row without a gold answer is what is looked for, not a reason to stop.
        let found = match golds(&row, fields) {
            Ok(golds) => golds.into_iter().map(|gold| (lint(&gold, problem(&row), policy), gold)).collect::<Vec<_>>(),
            Err(missing) => {
                count += 1;
                unsound += 1;
                let message = missing.to_string();
                writeln!(output, "{}", json!({"id": id, "finding": "gold_missing", "message": message}))?;
                continue;
            }
        };
        for (finding, gold) in found {
            count += 1;
            if let Some(finding) = finding {
                unsound += 1;
                let (code, message) = (finding.code(), finding.to_string());
                writeln!(output, "{}", json!({"id": id, "gold": gold, "finding": code, "message": message}))?;
            }
        }
    }
    output.flush()?;
    eprintln!("{count} gold answers, {unsound} unsound");
    Ok(if unsound == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The text of the task: a string, or the last message of a chat.
fn problem(row: &Value) -> Option<&str> {
    let value = PROBLEM.iter().find_map(|name| row.get(name))?;
    match value {
        Value::Array(messages) => messages.last()?.get("content")?.as_str(),
        _ => value.as_str(),
    }
}
