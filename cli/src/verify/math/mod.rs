//! `evenkeel verify math`.

mod golds;
mod rows;
mod summary;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use evenkeel_data::{Fields, Rules};
use evenkeel_math::Profile;
use evenkeel_proto::FieldError;
use evenkeel_reward::RewardSettings;

use super::judges::{BATCH, Judges};
use super::{InvalidLines, open_lines, open_output, parse_row};
use crate::arguments::VerifyMathOptions;
use rows::AnswerRow;
use summary::Summary;

/// Limit on the text of a batch in bytes, in addition to [`BATCH`] rows.
const BATCH_BYTES: usize = 256 << 20;

/// Judges every row and prints a verdict row for each, in order. An invalid row is reported on stderr and makes the
/// command fail at the end; the others are judged nevertheless.
pub(super) async fn verify(options: VerifyMathOptions) -> Result<ExitCode> {
    let mut output = open_output(options.output.as_deref())?;
    let fields = Fields::named("", options.gold_field.as_deref().unwrap_or_default(), "", "");
    let rules = Rules { math_profile: options.profile.clone(), ..Rules::default() };
    if let Some(path) = &options.lint_golds {
        return golds::lint_golds(path, &fields, &profile(&options.profile)?.rules(), &mut output);
    }
    let input = options.input.as_deref().context("--input is missing")?;
    if options.endpoint.is_empty() {
        // A service checks the profile of each item; here it is reported once.
        profile(&options.profile)?;
    }
    let judges = Judges::new(&options.endpoint, &RewardSettings::default())?;
    let mut summary = Summary::default();
    let mut invalid = InvalidLines::default();
    let mut lines = open_lines(input, "--input")?;
    let mut end = None;
    while end.is_none() {
        let mut rows = Vec::new();
        let mut bytes = 0;
        while end.is_none() && rows.len() < BATCH && bytes < BATCH_BYTES {
            let line = match lines.next_line() {
                Ok(Some(line)) => line,
                // The rows before the end or a read error are judged nevertheless.
                ended => {
                    end = Some(ended.map(|_| ()));
                    break;
                }
            };
            bytes += line.text.as_ref().map_or(0, String::len);
            let number = line.number;
            match parse_row(&line).and_then(|row| AnswerRow::read(&row, &fields, &rules)) {
                Ok(row) => rows.push(row),
                Err(error) => {
                    summary.invalid_rows += 1;
                    invalid.report(input, number, &error);
                }
            }
        }
        let began = Instant::now();
        let items = rows.iter_mut().map(|row| std::mem::take(&mut row.item)).collect();
        let verdicts = judges.batch(items).await?;
        summary.seconds += began.elapsed().as_secs_f64();
        for (row, verdict) in rows.iter().zip(verdicts) {
            summary.record(row, &verdict);
            serde_json::to_writer(&mut output, &summary::verdict_row(row, &verdict))?;
            output.write_all(b"\n")?;
        }
    }
    output.flush()?;
    invalid.end();
    print_err!("{summary}");
    end.transpose().with_context(|| input.display().to_string())?;
    Ok(if summary.invalid_rows == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The profile with this name; the default one for an empty name.
fn profile(name: &str) -> Result<Profile> {
    if name.is_empty() {
        return Ok(Profile::default());
    }
    name.parse().map_err(|_| FieldError::quoted("--profile", name, Profile::names().join(", ")).into())
}
