//! `evenkeel verify code`.

mod rows;
mod summary;

use std::collections::VecDeque;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use evenkeel_data::read::printable;
use evenkeel_proto::v1::{InvalidReason, Verdict};
use evenkeel_reward::RewardSettings;
use tokio::task::JoinHandle;

use super::judges::Judges;
use super::{InvalidLines, open_lines, open_output, parse_row};
use crate::arguments::VerifyCodeOptions;
use rows::{Program, ProgramRow, Question, rules};
use summary::Summary;

/// Programs that are judged concurrently: enough for the cores of several workers.
const MAX_PENDING: usize = 256;

/// Judges every program of every row and prints a verdict row for each, in order. An invalid row is reported on stderr
/// and makes the command fail at the end; the others are judged nevertheless.
pub(super) async fn verify(options: VerifyCodeOptions) -> Result<ExitCode> {
    let mut output = open_output(options.output.as_deref())?;
    let rules = rules(&options);
    let judges = Judges::new(&options.endpoint, &RewardSettings::default())?;
    judges.ready().await?;
    if let Judges::Local(judge) = &judges {
        let judge = Arc::clone(judge);
        tokio::task::spawn_blocking(move || judge.prepare_sandbox(&|line| print_err!("{line}"))).await??;
    }
    let began = Instant::now();
    let mut summary = Summary::default();
    let mut invalid = InvalidLines::default();
    let mut pending: VecDeque<(Program, JoinHandle<Result<Verdict>>)> = VecDeque::new();
    let mut lines = open_lines(&options.input, "--input")?;
    let end = loop {
        let line = match lines.next_line() {
            Ok(Some(line)) => line,
            // The rows before the end or a read error are judged nevertheless.
            ended => break ended.map(|_| ()),
        };
        let number = line.number;
        let row = match parse_row(&line).and_then(|row| ProgramRow::read(&row, &rules)) {
            Ok(row) => row,
            Err(error) => {
                summary.invalid_rows += 1;
                invalid.report(&options.input, number, &error);
                continue;
            }
        };
        for (index, program) in row.programs.into_iter().enumerate() {
            if pending.len() == MAX_PENDING
                && let Some(oldest) = pending.pop_front()
            {
                finish(oldest, &mut summary, &mut output).await?;
            }
            // The first program carries the tests; the others refer to them by their digest.
            let judging = judge(judges.clone(), program.clone(), row.question.clone(), index == 0);
            pending.push_back((program, tokio::spawn(judging)));
        }
    };
    for last in pending {
        finish(last, &mut summary, &mut output).await?;
    }
    output.flush()?;
    summary.seconds = began.elapsed().as_secs_f64();
    invalid.end();
    print_err!("{summary}");
    end.with_context(|| options.input.display().to_string())?;
    Ok(if summary.invalid_rows == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Requests a verdict, and repeats the request with the tests if the worker does not know them.
async fn judge(judges: Judges, program: Program, question: Arc<Question>, send_tests: bool) -> Result<Verdict> {
    let verdict = judges.one(program.item(if send_tests { &question.task } else { &question.by_digest })).await?;
    if send_tests || verdict.invalid_reason() != InvalidReason::UnknownTests {
        return Ok(verdict);
    }
    judges.one(program.item(&question.task)).await
}

async fn finish(
    (program, judging): (Program, JoinHandle<Result<Verdict>>),
    summary: &mut Summary,
    output: &mut dyn Write,
) -> Result<()> {
    let verdict = match judging.await {
        Ok(verdict) => verdict?,
        // A panic affects only this program.
        Err(error) => {
            Verdict::invalid("", InvalidReason::Internal, format!("judging the program failed: {}", printable(error)))
        }
    };
    summary.record(&program, &verdict);
    serde_json::to_writer(&mut *output, &summary::verdict_row(&program, &verdict))?;
    output.write_all(b"\n")?;
    Ok(())
}
