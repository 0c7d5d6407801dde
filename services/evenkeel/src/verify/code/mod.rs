//! `evenkeel verify code`.

mod rows;
mod tally;

use std::collections::VecDeque;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use evenkeel_proto::v1::{InvalidReason, Verdict};
use evenkeel_reward::RewardConfig;
use evenkeel_tasks::read::printable;
use tokio::task::JoinHandle;

use super::judges::Judges;
use super::{complain, lines_of, row_of, writer};
use crate::arguments::VerifyCodeOptions;
use rows::{Program, Question, Row, rules};
use tally::Tally;

/// Programs that are in work at once: enough for the cores of some workers.
const IN_WORK: usize = 256;

/// Judges every program of every row and prints a verdict row for each, in their order. A row that cannot be read is named on stderr
/// and makes the command fail in the end; the others are judged all the same.
pub(super) async fn verify(options: VerifyCodeOptions) -> Result<ExitCode> {
    let mut output = writer(options.output.as_deref())?;
    let rules = rules(&options);
    let judges = Judges::new(&options.endpoint, &RewardConfig::default())?;
    judges.ready().await?;
    if let Judges::Here(judge) = &judges {
        let judge = Arc::clone(judge);
        let prepared = tokio::task::spawn_blocking(move || judge.prepare_sandbox(&|line| eprintln!("{line}"))).await?;
        prepared.map_err(anyhow::Error::msg)?;
    }
    let began = Instant::now();
    let mut tally = Tally::default();
    let mut in_work: VecDeque<(Program, JoinHandle<Result<Verdict>>)> = VecDeque::new();
    let mut lines = lines_of(&options.input, "--input")?;
    let end = loop {
        let line = match lines.next_line() {
            Ok(Some(line)) => line,
            // What was read before is judged all the same.
            ended => break ended.map(|_| ()),
        };
        let number = line.number;
        let row = match row_of(&line).and_then(|row| Row::read(&row, &rules)) {
            Ok(row) => row,
            Err(error) => {
                tally.unreadable += 1;
                complain(&options.input, number, &error);
                continue;
            }
        };
        for (index, program) in row.programs.into_iter().enumerate() {
            if in_work.len() == IN_WORK
                && let Some(oldest) = in_work.pop_front()
            {
                finish(oldest, &mut tally, &mut output).await?;
            }
            // The tests travel with the first program; the others name them.
            let judging = judge(judges.clone(), program.clone(), row.question.clone(), index == 0);
            in_work.push_back((program, tokio::spawn(judging)));
        }
    };
    for last in in_work {
        finish(last, &mut tally, &mut output).await?;
    }
    output.flush()?;
    tally.seconds = began.elapsed().as_secs_f64();
    eprintln!("{tally}");
    end.with_context(|| options.input.display().to_string())?;
    Ok(if tally.unreadable == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Asks for a verdict, and again with the tests where the worker does not have them.
async fn judge(judges: Judges, program: Program, question: Arc<Question>, send_tests: bool) -> Result<Verdict> {
    let verdict = judges.one(program.item(if send_tests { &question.task } else { &question.named })).await?;
    if send_tests || verdict.invalid_reason() != InvalidReason::UnknownTests {
        return Ok(verdict);
    }
    judges.one(program.item(&question.task)).await
}

async fn finish(
    (program, judging): (Program, JoinHandle<Result<Verdict>>),
    tally: &mut Tally,
    output: &mut dyn Write,
) -> Result<()> {
    let verdict = match judging.await {
        Ok(verdict) => verdict?,
        // A defect ends one program's judging and no other's.
        Err(error) => {
            Verdict::invalid("", InvalidReason::Internal, format!("judging the program failed: {}", printable(error)))
        }
    };
    tally.count(&program, &verdict);
    serde_json::to_writer(&mut *output, &tally::verdict_row(&program, &verdict))?;
    output.write_all(b"\n")?;
    Ok(())
}
