//! `evenkeel watch`: a run in the terminal, by its page or by its directory.

mod page;

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use evenkeel_data::read::printable;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{RunState, StepKind};
use evenkeel_rpc::retry::RetryPolicy;
use evenkeel_run::{MetricsLine, RUN_FILE};
use evenkeel_run_report::{LineCursor, RunUpdate, Whereabouts, run_update};
use page::Page;

use crate::arguments::WatchOptions;
use crate::columns;
use crate::terminal::note;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a page that was there may be away.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a page may be away where the last step had been done.
const FINISHED_TIMEOUT: Duration = Duration::from_secs(5);

/// Where updates of a run come from.
enum UpdateSource {
    Page(Page),
    Directory(PathBuf),
}

impl UpdateSource {
    fn of(run: &str) -> Result<Self> {
        if run.starts_with("http://") {
            return Ok(Self::Page(Page::at(run)?));
        }
        if run.starts_with("https://") {
            let allowed = "http://HOST:PORT/run/NAME, as a page is served, or the directory of a run";
            return Err(FieldError::quoted("RUN", run, allowed).into());
        }
        let directory = Path::new(run);
        if !directory.join(RUN_FILE).is_file() {
            let found = format!("without a run (there is no {RUN_FILE})");
            return Err(FieldError::new(run, found, "the directory of a run, or the address of its page").into());
        }
        Ok(Self::Directory(directory.to_owned()))
    }

    async fn update(&self, from: LineCursor) -> Result<RunUpdate> {
        match self {
            Self::Page(page) => page.update(from).await,
            Self::Directory(directory) => Ok(run_update(directory, Whereabouts::stored(directory), from)?),
        }
    }
}

/// Prints every step and evaluation, those that are done already as well, until the run has ended.
pub(crate) async fn watch(options: &WatchOptions) -> Result<ExitCode> {
    let source = UpdateSource::of(&options.run)?;
    let mut from = LineCursor::default();
    let mut said = String::new();
    let mut retries = RetryPolicy::new(PAUSE, PAUSE).with_time_limit(TIMEOUT).start();
    let mut total_steps = u64::MAX;
    let mut shown_state = None;
    loop {
        let update = match source.update(from).await {
            Ok(update) => update,
            // Before the first answer it may be a wrong address; later the process may only be busy, or gone.
            Err(error) if said.is_empty() => return Err(error),
            Err(error) => {
                if retries.waited().is_none() {
                    note(&format!("lost, trying again: {error:#}"));
                }
                let retry = retries.next_retry();
                // It went away before it could say that the run was over.
                if from.steps as u64 >= total_steps && retries.waited() >= Some(FINISHED_TIMEOUT) {
                    note(&format!("the page no longer responds; all {total_steps} steps were done"));
                    return Ok(ExitCode::SUCCESS);
                }
                let Some(retry) = retry else {
                    return Err(error)
                        .context("the page no longer responds; if the run has ended, watch its directory instead");
                };
                tokio::time::sleep(retry.pause).await;
                continue;
            }
        };
        if retries.waited().is_some() {
            note("found again");
            retries.reset();
        }
        total_steps = update.total_steps;
        let lines = match print(&update, &mut from) {
            // The reader has seen enough, such as `head`.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            lines => lines?,
        };
        let ended = update.state.known().is_some_and(RunState::has_ended);
        if update.doing != said {
            // Counts within a step change all the time; what is printed is what a person would miss.
            if shown_state.as_ref() != Some(&update.state) {
                note(&printable(&update.doing));
            }
            shown_state = Some(update.state.clone());
            said.clone_from(&update.doing);
        }
        if ended && lines == 0 {
            let failed = update.state.known() == Some(RunState::Failed);
            return Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        }
        if lines == 0 {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Prints new lines. Returns how many there were.
fn print(update: &RunUpdate, from: &mut LineCursor) -> io::Result<usize> {
    let mut out = io::stdout().lock();
    for line in &update.steps {
        if let Some(line) = MetricsLine::from_json(StepKind::Train, line.get()) {
            writeln!(out, "{}", step(&line, update.total_steps))?;
        }
    }
    for line in &update.evaluations {
        let line = MetricsLine::from_json(StepKind::Evaluation, line.get());
        if let Some((line, evaluated)) = line.and_then(|line| Some((line.step, columns::evaluated(&line)?))) {
            writeln!(out, "evaluation after {line} steps: {}", printable(&evaluated))?;
        }
    }
    *from = update.next;
    Ok(update.steps.len() + update.evaluations.len())
}

fn step(line: &MetricsLine, total: u64) -> String {
    let value = |name: &str, digits: usize| match line.get(name) {
        Some(value) => format!("{value:.digits$}"),
        None => "–".to_owned(),
    };
    format!(
        "step {}/{total}  reward {}  length {}  gap {}  {} s",
        line.step,
        value("critic/score/mean", 3),
        value("response_length/mean", 1),
        value("aggregation/length_gap", 1),
        value("timing_s/step", 1)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_run_is_refused_by_what_it_is() {
        let refused = |run: &str| UpdateSource::of(run).err().unwrap().to_string();
        assert!(refused("/nowhere").contains("there is no run.json"));
        assert!(refused("https://a/run/b").contains("allowed: http://HOST:PORT/run/NAME"));
        assert!(refused("http://127.0.0.1:1/").contains("/run/NAME"));
        assert!(UpdateSource::of("http://127.0.0.1:1/run/a").is_ok());
    }

    #[test]
    fn a_step_is_a_line() {
        let json = r#"{"kind":"train","step":5,"policy_version":5,"critic/score/mean":0.25,"timing_s/step":1.25}"#;
        let line = MetricsLine::from_json(StepKind::Train, json).unwrap();
        assert_eq!(step(&line, 80), "step 5/80  reward 0.250  length –  gap –  1.2 s");
    }
}
