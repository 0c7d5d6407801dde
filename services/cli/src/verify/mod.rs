//! `evenkeel verify`: verdicts on the rows of a file, in this process or by running services.
#![expect(clippy::print_stderr, reason = "what a person reads: the summary, and rows that are none")]

mod golds;
mod judge;
mod rows;
mod tally;

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::arguments::{VerifyCommand, VerifyMathOptions};
use judge::Judges;
use rows::{Fields, Row};
use tally::Tally;

/// Rows that are read, judged and written together: enough to keep every core busy, few enough to hold.
const BATCH: usize = 4096;

pub(crate) async fn verify(command: VerifyCommand) -> Result<ExitCode> {
    match command {
        VerifyCommand::Math(options) => math(options).await,
    }
}

/// Judges every row and prints a verdict row for each, in their order. A row that cannot be read is named on stderr and makes the
/// command fail in the end; the others are judged all the same.
async fn math(options: VerifyMathOptions) -> Result<ExitCode> {
    let mut output = writer(options.output.as_deref())?;
    let fields = Fields::with(options.gold_field);
    if let Some(path) = &options.lint_golds {
        return golds::lint_golds(path, &fields, &judge::profile(&options.profile)?.policy(), &mut output);
    }
    let input = options.input.as_deref().context("--input is missing")?;
    let judges = Judges::new(&options.endpoint, &options.profile)?;
    let mut tally = Tally::default();
    let mut lines = reader(input, "--input")?.lines().enumerate();
    loop {
        let (mut rows, mut any) = (Vec::new(), false);
        for (number, line) in lines.by_ref().take(BATCH) {
            any = true;
            let line = line.with_context(|| format!("{} line {}", input.display(), number + 1))?;
            if line.trim().is_empty() {
                continue;
            }
            match Row::read(&line, number + 1, &fields, &options.profile) {
                Ok(row) => rows.push(row),
                Err(error) => {
                    tally.unreadable += 1;
                    eprintln!("{} line {}: {error}", input.display(), number + 1);
                }
            }
        }
        if !any {
            break;
        }
        let began = Instant::now();
        let items = rows.iter().map(|row| row.item.clone()).collect();
        let verdicts = judges.judge(items).await?;
        tally.seconds += began.elapsed().as_secs_f64();
        for (row, verdict) in rows.iter().zip(&verdicts) {
            tally.count(row, verdict);
            serde_json::to_writer(&mut output, &tally::verdict_row(row, verdict))?;
            output.write_all(b"\n")?;
        }
    }
    output.flush()?;
    eprintln!("{tally}");
    Ok(if tally.unreadable == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn reader(path: &Path, flag: &str) -> Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let file = File::open(path).with_context(|| format!("{flag} {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

fn writer(path: Option<&Path>) -> Result<Box<dyn Write>> {
    let Some(path) = path else { return Ok(Box::new(BufWriter::new(std::io::stdout()))) };
    let file = File::create(path).with_context(|| format!("--output {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}
