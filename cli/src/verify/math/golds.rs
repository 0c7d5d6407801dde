//! `--lint-golds`: lists gold answers that are unsuitable for training.

use std::io::Write;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use evenkeel_data::Fields;
use evenkeel_data::read::printable;
use evenkeel_math::{Rules, lint};
use serde_json::json;

use crate::verify::{open_lines, parse_row};

/// Prints a row for each unsound gold answer, and fails if there is any.
pub(super) fn lint_golds(path: &Path, fields: &Fields, rules: &Rules, output: &mut dyn Write) -> Result<ExitCode> {
    let mut count = 0;
    let mut unsound = 0;
    let mut lines = open_lines(path, "--lint-golds")?;
    while let Some(line) = lines.next_line().with_context(|| path.display().to_string())? {
        let row = parse_row(&line);
        let id = row.as_ref().ok().and_then(|row| fields.id(row).cloned()).unwrap_or_else(|| line.number.into());
        // An invalid row or a missing gold answer is a finding, not a reason to stop.
        let (row, golds) = match row.map(|row| (fields.golds(&row), row)) {
            Ok((Ok(golds), row)) => (row, golds),
            Ok((Err(missing), _)) => {
                (count, unsound) = (count + 1, unsound + 1);
                let message = printable(missing);
                writeln!(output, "{}", json!({"id": id, "finding": "gold_missing", "message": message}))?;
                continue;
            }
            Err(error) => {
                (count, unsound) = (count + 1, unsound + 1);
                let message = printable(format_args!("{error:#}"));
                writeln!(output, "{}", json!({"id": id, "finding": "row_unreadable", "message": message}))?;
                continue;
            }
        };
        for gold in golds {
            count += 1;
            if let Some((code, message)) = finding(&gold, fields.question(&row), rules) {
                unsound += 1;
                writeln!(output, "{}", json!({"id": id, "gold": gold, "finding": code, "message": message}))?;
            }
        }
    }
    output.flush()?;
    print_err!("{count} gold answers, {unsound} unsound");
    Ok(if unsound == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Code and description of the problem with a gold answer. A panic of the linter is a finding as well and does not
/// affect other rows.
fn finding(gold: &str, problem: Option<&str>, rules: &Rules) -> Option<(&'static str, String)> {
    match catch_unwind(|| lint(gold, problem, rules)) {
        Ok(finding) => finding.map(|finding| (finding.code(), finding.to_string())),
        Err(_) => Some(("internal", "the verifier failed unexpectedly".to_owned())),
    }
}
