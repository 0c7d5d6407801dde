//! `evenkeel show`: the answers of an evaluation or the samples of a training step, for a person to read.

mod answers;
mod rollouts;
mod sample;
mod source;

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_run::{AnswerReader, RolloutReader, RunFilesError};

use crate::arguments::ShowOptions;
use answers::Shown;
pub(crate) use answers::with_visible_end;
use rollouts::ShownRollouts;
use sample::{Longest, Sample, is_wanted};
use source::ShownFiles;

/// Prints what was requested. A reader that has seen enough ends it quietly.
pub(crate) fn show(options: &ShowOptions) -> Result<ExitCode> {
    let source = ShownFiles::of(options)?;
    let stdout = io::stdout();
    let is_terminal = stdout.is_terminal();
    let mut out = BufWriter::new(stdout.lock());
    let written = match &source {
        ShownFiles::Evaluation { files, .. } => {
            let mut shown = Shown::default();
            let answers = files.iter().map(|path| AnswerReader::open(path));
            write(answers, options, &mut out, |answer, out| shown.answer(answer, out))
        }
        ShownFiles::Training(files) => {
            let mut shown = ShownRollouts::default();
            let rollouts = files.iter().map(|path| RolloutReader::open(path));
            write(rollouts, options, &mut out, |rollout, out| shown.rollout(rollout, out))
        }
    };
    let counts = match written {
        Err(error) if is_broken_pipe(&error) => return Ok(ExitCode::SUCCESS),
        written => written?,
    };
    match out.flush() {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        flushed => flushed?,
    }
    drop(out);
    if is_terminal || counts.shown == 0 {
        let what = if matches!(source, ShownFiles::Training(_)) { "samples" } else { "answers" };
        print_err!("{} of {} {what} shown", counts.shown, counts.all);
    }
    if let ShownFiles::Evaluation { also_trained: Some(step), .. } = source {
        print_err!(
            "these are answers of the evaluation after step {step}; add --train for the samples that step {step} was \
            trained on"
        );
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Default)]
struct ShownCounts {
    all: usize,
    shown: usize,
}

fn write<S: Sample, W: Write>(
    files: impl Iterator<Item = Result<impl Iterator<Item = Result<S, RunFilesError>>, RunFilesError>>,
    options: &ShowOptions,
    out: &mut W,
    mut print: impl FnMut(&S, &mut W) -> io::Result<()>,
) -> Result<ShownCounts> {
    let mut counts = ShownCounts::default();
    let mut put = |sample: &S| -> Result<()> {
        if options.json {
            writeln!(out, "{}", serde_json::to_string(sample)?)?
        } else {
            print(sample, out)?
        }
        Ok(())
    };
    let most = options.limit.unwrap_or(usize::MAX);
    let mut longest = options.longest.map(|longest| Longest::of(longest.min(most)));
    for file in files {
        for sample in file? {
            let sample = sample?;
            counts.all += 1;
            if !is_wanted(&sample, options) {
                continue;
            }
            match &mut longest {
                Some(longest) => longest.add(sample),
                None if counts.shown < most => {
                    counts.shown += 1;
                    put(&sample)?;
                }
                None => {}
            }
        }
    }
    for sample in longest.into_iter().flat_map(Longest::finish) {
        counts.shown += 1;
        put(&sample)?;
    }
    Ok(counts)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
