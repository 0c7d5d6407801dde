//! One run in a process of its own: a crash, or memory that runs out, ends that run and no other.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use evenkeel_run::{RunDirectory, RunRecord, did_all_steps};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::sync::watch;

use super::jobs::{Job, Start};

/// Exit statuses of a run that was stopped by SIGHUP, Ctrl-C or SIGTERM, by the convention of shells.
const STOPPED: [i32; 3] = [129, 130, 143];
/// How long a run of an earlier call of the command may take to end; one that takes longer is reported as in use.
const LONGEST_END: Duration = Duration::from_secs(120);

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JobOutcome {
    /// After its last step.
    Finished,
    /// Stopped before: the next call of the command continues it.
    Stopped,
    /// With an error, in its words.
    Failed(String),
}

/// Whether the run in a directory did all its steps.
pub(super) fn is_finished(directory: &Path, steps: u64) -> bool {
    did_all_steps(directory, steps)
}

/// Starts or resumes a run and waits for its end. `program` is this program, as a command. `on_step` gets the number of
/// GRPO steps done.
///
/// The run ends after its step once `end` is true, as after SIGTERM.
pub(super) async fn run(
    job: &Job,
    program: &[String],
    mut end: watch::Receiver<bool>,
    mut on_step: impl FnMut(u64),
) -> Result<JobOutcome> {
    if is_finished(&job.directory, job.steps) {
        return Ok(JobOutcome::Finished);
    }
    free(&job.directory).await;
    let log = log_of(&job.directory);
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let stderr = File::create(&log).with_context(|| log.display().to_string())?;
    let (program, first) = program.split_first().context("no program")?;
    let mut command = Command::new(program);
    // The run ends when its standard input does: with this process, however that ends.
    command.args(first).args(["train", "--json", "--with-parent"]).args(arguments(job)).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
    let mut child = command.spawn().with_context(|| program.clone())?;
    let mut stdin = child.stdin.take().context("the run has no standard input")?;
    let mut is_told = false;
    let stdout = child.stdout.take().context("the run has no standard output")?;
    let mut lines = BufReader::new(stdout).lines();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            () = told(&mut end), if !is_told => {
                is_told = true;
                // One that has ended meanwhile needs no telling.
                let _ = stdin.write_all(b"\n").await;
                continue;
            }
        };
        let Ok(Some(line)) = line else { break };
        let line: Value = serde_json::from_str(&line).unwrap_or_default();
        if line["kind"] == "train"
            && let Some(step) = line["step"].as_u64()
        {
            on_step(step);
        }
    }
    let status = child.wait().await?;
    Ok(match status.code() {
        Some(0) => JobOutcome::Finished,
        Some(code) if STOPPED.contains(&code) => JobOutcome::Stopped,
        _ => JobOutcome::Failed(reason(&log).unwrap_or_else(|| status.to_string())),
    })
}

/// Completes once the run is to end; never where nobody can say so any more.
async fn told(end: &mut watch::Receiver<bool>) {
    let is_gone = end.wait_for(|end| *end).await.is_err();
    if is_gone {
        std::future::pending().await
    }
}

/// Waits until no process has a directory: after this command was killed, its runs take a moment to notice and to end.
async fn free(directory: &Path) {
    let began = Instant::now();
    while RunDirectory::is_in_use(directory) && began.elapsed() < LONGEST_END {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A run that was begun is resumed; any other one starts.
fn arguments(job: &Job) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    let has_begun = RunRecord::read(&job.directory).is_ok() && RunDirectory::settings_of(&job.directory).is_ok();
    if has_begun {
        return vec!["--resume".to_owned(), path(&job.directory)];
    }
    let mut arguments = match &job.start {
        Start::Recipe(recipe) => vec!["--recipe".to_owned(), recipe.clone()],
        Start::WarmStart(directory) => vec!["--from".to_owned(), format!("{}@0", path(directory))],
    };
    arguments.extend(["--out".to_owned(), path(&job.directory)]);
    arguments.extend(job.settings.iter().flat_map(|setting| ["--set".to_owned(), setting.clone()]));
    arguments
}

/// What a run prints on stderr, next to its directory.
fn log_of(directory: &Path) -> PathBuf {
    directory.with_file_name(format!("{}.log", directory.file_name().unwrap_or_default().to_string_lossy()))
}

/// The error that a run ended with: the last line of its log that is one, else its last line.
fn reason(log: &Path) -> Option<String> {
    let text = String::from_utf8_lossy(&std::fs::read(log).ok()?).into_owned();
    let lines = || text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().find_map(|line| line.strip_prefix("error: "));
    error.or_else(|| lines().next()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(directory: PathBuf) -> Job {
        Job {
            name: "a".to_owned(),
            directory,
            start: Start::Recipe("arithmetic".to_owned()),
            settings: vec!["run.seed=1".to_owned()],
            steps: 3,
            after: None,
            result: None,
        }
    }

    /// A run that is not told to end.
    fn never() -> watch::Receiver<bool> {
        watch::channel(false).1
    }

    /// A script that stands for a run.
    fn program(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    #[tokio::test]
    async fn steps_are_counted_and_the_end_is_understood() {
        let dir = tempfile::tempdir().unwrap();
        let job = job(dir.path().join("task/token-seed-1"));
        let mut steps = Vec::new();
        let lines = r#"echo '{"kind":"train","step":1}'; echo '{"kind":"evaluation","step":1}'; echo '{"kind":"train","step":2}'"#;
        let done = program(lines);
        assert_eq!(run(&job, &done, never(), |step| steps.push(step)).await.unwrap(), JobOutcome::Finished);
        assert_eq!(steps, [1, 2]);
        let failing = program("echo 'error: no engine' >&2; echo later >&2; exit 1");
        assert_eq!(run(&job, &failing, never(), |_| {}).await.unwrap(), JobOutcome::Failed("no engine".to_owned()));
        for code in [129, 130, 143] {
            let stopped = program(&format!("exit {code}"));
            assert_eq!(run(&job, &stopped, never(), |_| {}).await.unwrap(), JobOutcome::Stopped);
        }
    }

    #[tokio::test]
    async fn a_run_is_told_to_end_by_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let job = job(dir.path().join("run"));
        let waits = program("read line && exit 143");
        let (tell, end) = watch::channel(false);
        let (ended, ()) = tokio::join!(run(&job, &waits, end, |_| {}), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            tell.send_replace(true);
        });
        assert_eq!(ended.unwrap(), JobOutcome::Stopped);
    }

    #[tokio::test]
    async fn a_finished_run_is_not_started_again() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("summary.json"), r#"{"state": "completed", "steps": 3}"#).unwrap();
        let job = job(dir.path().to_owned());
        assert_eq!(run(&job, &["/nothing/there".to_owned()], never(), |_| {}).await.unwrap(), JobOutcome::Finished);
        std::fs::write(dir.path().join("summary.json"), r#"{"state": "completed", "steps": 2}"#).unwrap();
        assert!(run(&job, &["/nothing/there".to_owned()], never(), |_| {}).await.is_err());
    }
}
