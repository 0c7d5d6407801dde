//! `evenkeel show`: the answers of an evaluation, for a person to read.

mod answers;

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use evenkeel_run_files::{Answer, AnswerReader, list_answers};

use crate::arguments::ShowOptions;
use crate::runs::require_run;
use answers::Shown;
use evenkeel_proto::FieldError;

/// How a file of answers begins.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Prints the answers that were requested. A reader that has seen enough ends it quietly.
pub(crate) fn show(options: &ShowOptions) -> Result<ExitCode> {
    let files = files(&options.run, options.step, &options.benchmark)?;
    let stdout = io::stdout();
    let is_terminal = stdout.is_terminal();
    let mut out = BufWriter::new(stdout.lock());
    let mut counts = Counts::default();
    for path in &files {
        match write(path, options, &mut out, &mut counts) {
            Err(error) if is_broken_pipe(&error) => return Ok(ExitCode::SUCCESS),
            written => written?,
        }
    }
    match out.flush() {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        flushed => flushed?,
    }
    drop(out);
    if is_terminal || counts.shown == 0 {
        print_err!("{} of {} answers shown", counts.shown, counts.all);
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Default)]
struct Counts {
    all: usize,
    shown: usize,
}

fn write(path: &Path, options: &ShowOptions, out: &mut impl Write, counts: &mut Counts) -> Result<()> {
    let mut shown = Shown::default();
    for answer in AnswerReader::open(path)? {
        let answer = answer?;
        counts.all += 1;
        if counts.shown < options.limit.unwrap_or(usize::MAX) && is_wanted(&answer, options) {
            counts.shown += 1;
            match options.json {
                true => writeln!(out, "{}", serde_json::to_string(&answer)?)?,
                false => shown.answer(&answer, out)?,
            }
        }
    }
    Ok(())
}

/// Without a filter all are; otherwise those that one of them takes.
fn is_wanted(answer: &Answer, options: &ShowOptions) -> bool {
    let (valid, right) = (answer.verdict.is_valid(), answer.is_right());
    let all = !options.wrong && !options.right && !options.invalid;
    let taken = all || (options.wrong && valid && !right) || (options.right && right) || (options.invalid && !valid);
    taken && options.problem.as_ref().is_none_or(|problem| *problem == answer.problem)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// The files of answers: one that is named, those of a folder, or those of the last evaluation of a run.
fn files(run: &Path, step: Option<u64>, benchmark: &[String]) -> Result<Vec<PathBuf>> {
    if run.is_file() {
        let mut first = [0; 4];
        let is_zstd = File::open(run).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == ZSTD;
        return match is_zstd {
            true => Ok(vec![run.to_owned()]),
            false => {
                let allowed = "the directory of a run, the folder of `evenkeel eval`, or one of its files of answers (.jsonl.zst)";
                Err(FieldError::new("RUN", format!("{}, which is no file of answers", run.display()), allowed).into())
            }
        };
    }
    require_run(run)?;
    let evaluations = run.join("evaluation");
    let folder = match evaluations.is_dir() {
        true => of_step(&evaluations, step)?,
        false => run.to_owned(),
    };
    let found = list_answers(&folder)?;
    if found.is_empty() {
        let allowed = "a run that was evaluated, or the folder of `evenkeel eval`";
        return Err(FieldError::new(run.display().to_string(), "without answers", allowed).into());
    }
    if let Some(unknown) = benchmark.iter().find(|name| !found.iter().any(|(known, _)| known == *name)) {
        let known: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        return Err(FieldError::quoted("--benchmark", unknown, known.join(", ")).into());
    }
    let wanted = |name: &String| benchmark.is_empty() || benchmark.contains(name);
    Ok(found.into_iter().filter(|(name, _)| wanted(name)).map(|(_, path)| path).collect())
}

fn of_step(evaluations: &Path, step: Option<u64>) -> Result<PathBuf> {
    let entries = std::fs::read_dir(evaluations).with_context(|| evaluations.display().to_string())?;
    let number = |name: &std::ffi::OsStr| name.to_str()?.strip_prefix("step-")?.parse::<u64>().ok();
    let mut steps: Vec<u64> = entries.flatten().filter_map(|entry| number(&entry.file_name())).collect();
    steps.sort_unstable();
    let Some(chosen) = step.or(steps.last().copied()) else {
        bail!("{} has no evaluation yet", evaluations.display());
    };
    if !steps.contains(&chosen) {
        let known: Vec<_> = steps.iter().map(u64::to_string).collect();
        return Err(
            FieldError::new("--step", chosen, format!("a step that was evaluated: {}", known.join(", "))).into()
        );
    }
    Ok(evaluations.join(format!("step-{chosen}")))
}
