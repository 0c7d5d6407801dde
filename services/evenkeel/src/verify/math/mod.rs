//! `evenkeel verify math`.

mod golds;
mod rows;
mod tally;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use evenkeel_math::Profile;
use evenkeel_reward::RewardConfig;
use evenkeel_tasks::{Fields, Rules};

use super::judges::{BATCH, Judges};
use super::{complain, lines_of, row_of, writer};
use crate::arguments::VerifyMathOptions;
use rows::Row;
use tally::Tally;

/// Text of rows that are judged together, in bytes, beside [`BATCH`] of them.
const BATCH_BYTES: usize = 256 << 20;

/// Judges every row and prints a verdict row for each, in their order. A row that cannot be read is named on stderr and makes the
/// command fail in the end; the others are judged all the same.
pub(super) async fn verify(options: VerifyMathOptions) -> Result<ExitCode> {
    let mut output = writer(options.output.as_deref())?;
    let fields = Fields::named("", options.gold_field.as_deref().unwrap_or_default(), "", "");
    let rules = Rules { math_profile: options.profile.clone(), ..Rules::default() };
    if let Some(path) = &options.lint_golds {
        return golds::lint_golds(path, &fields, &profile(&options.profile)?.policy(), &mut output);
    }
    let input = options.input.as_deref().context("--input is missing")?;
    if options.endpoint.is_empty() {
        // A service knows its own profiles; here a wrong name is said once.
        profile(&options.profile)?;
    }
    let judges = Judges::new(&options.endpoint, &RewardConfig::default())?;
    let mut tally = Tally::default();
    let mut lines = lines_of(input, "--input")?;
    let mut end = None;
    while end.is_none() {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while end.is_none() && rows.len() < BATCH && bytes < BATCH_BYTES {
            let line = match lines.next_line() {
                Ok(Some(line)) => line,
                // What was read before is judged all the same.
                ended => {
                    end = Some(ended.map(|_| ()));
                    break;
                }
            };
            bytes += line.text.as_ref().map_or(0, String::len);
            let number = line.number;
            match row_of(&line).and_then(|row| Row::read(&row, &fields, &rules)) {
                Ok(row) => rows.push(row),
                Err(error) => {
                    tally.unreadable += 1;
                    complain(input, number, &error);
                }
            }
        }
        let began = Instant::now();
        let items = rows.iter_mut().map(|row| std::mem::take(&mut row.item)).collect();
        let verdicts = judges.batch(items).await?;
        tally.seconds += began.elapsed().as_secs_f64();
        for (row, verdict) in rows.iter().zip(verdicts) {
            tally.count(row, &verdict);
            serde_json::to_writer(&mut output, &tally::verdict_row(row, &verdict))?;
            output.write_all(b"\n")?;
        }
    }
    output.flush()?;
    eprintln!("{tally}");
    end.transpose().with_context(|| input.display().to_string())?;
    Ok(if tally.unreadable == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The rules of that name; the default ones where there is none.
fn profile(name: &str) -> Result<Profile> {
    if name.is_empty() {
        return Ok(Profile::default());
    }
    name.parse().map_err(|_| anyhow!("--profile is `{name}`, allowed: {}", Profile::names().join(", ")))
}
