//! Runs jobs, a limited number at once, each after the one that it depends on.

use anyhow::Result;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::jobs::Job;
use super::worker::{self, JobOutcome};
use crate::signals::Signals;

/// What happens while jobs run.
#[derive(Debug)]
pub(super) enum JobEvent {
    Began,
    Step(usize, u64),
    Ended(usize, JobOutcome),
}

/// Runs all jobs, `at_once` at a time, in their order where several could start. After Ctrl-C, SIGTERM or SIGHUP
/// nothing starts any more, and the runs end after their step. Returns how each ended, where it did.
pub(super) async fn run_all(
    jobs: &[Job],
    at_once: usize,
    program: &[String],
    mut on: impl FnMut(&JobEvent),
) -> Result<Vec<Option<JobOutcome>>> {
    let mut ended: Vec<Option<JobOutcome>> = vec![None; jobs.len()];
    let mut has_begun = vec![false; jobs.len()];
    let (steps, mut stepped) = mpsc::unbounded_channel();
    let mut running = JoinSet::new();
    let mut signals = Signals::listen()?;
    let (tell_end, end) = watch::channel(false);
    let mut is_stopping = false;
    loop {
        fail_those_behind(jobs, &mut ended, &mut on);
        while running.len() < at_once && !is_stopping {
            let is_ready = |index: &usize| {
                let before = jobs[*index].after.map(|before| ended[before].as_ref());
                !has_begun[*index]
                    && ended[*index].is_none()
                    && before.is_none_or(|before| before == Some(&JobOutcome::Finished))
            };
            let Some(index) = (0..jobs.len()).find(is_ready) else { break };
            has_begun[index] = true;
            on(&JobEvent::Began);
            let job = jobs[index].clone();
            let program = program.to_vec();
            let steps = steps.clone();
            let end = end.clone();
            running.spawn(async move {
                let on_step = |step| {
                    // Their reader outlives this.
                    let _ = steps.send((index, step));
                };
                (index, worker::run(&job, &program, end, on_step).await)
            });
        }
        if running.is_empty() {
            return Ok(ended);
        }
        tokio::select! {
            Some((index, step)) = stepped.recv() => on(&JobEvent::Step(index, step)),
            Some(done) = running.join_next() => {
                let (index, result) = done?;
                let result = result?;
                on(&JobEvent::Ended(index, result.clone()));
                ended[index] = Some(result);
            }
            received = signals.next() => {
                is_stopping = true;
                // A terminal tells the runs as well, since they are of one process group; a scheduler may tell this
                // process alone.
                if !received.is_from_person() {
                    tell_end.send_replace(true);
                }
            }
        }
    }
}

/// Jobs that depend on a failed one cannot start.
fn fail_those_behind(jobs: &[Job], ended: &mut [Option<JobOutcome>], on: &mut impl FnMut(&JobEvent)) {
    for index in 0..jobs.len() {
        let Some(before) = jobs[index].after else { continue };
        if let (None, Some(JobOutcome::Failed(reason))) = (&ended[index], &ended[before]) {
            let failed = JobOutcome::Failed(format!("{}: {reason}", jobs[before].name));
            on(&JobEvent::Ended(index, failed.clone()));
            ended[index] = Some(failed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::jobs::Start;
    use super::*;

    /// Jobs, and a script that runs them: it fails where a directory has `bad` in its name.
    fn jobs(folder: &Path, after: &[(&str, Option<usize>)]) -> (Vec<Job>, Vec<String>) {
        let script = "case \"$*\" in *bad*) echo 'error: spoiled' >&2; exit 1;; esac";
        let job = |(name, after): &(&str, Option<usize>)| Job {
            name: (*name).to_owned(),
            directory: folder.join(name),
            start: Start::Recipe("arithmetic".to_owned()),
            settings: Vec::new(),
            steps: 1,
            after: *after,
            result: None,
        };
        (after.iter().map(job).collect(), ["sh", "-c", script].map(str::to_owned).to_vec())
    }

    #[tokio::test]
    async fn a_job_waits_for_the_one_that_it_needs_and_no_more_run_than_may() {
        let dir = tempfile::tempdir().unwrap();
        let (jobs, program) = jobs(dir.path(), &[("a", None), ("b", Some(0)), ("c", Some(0)), ("d", None)]);
        let mut order = Vec::new();
        let mut running = 0_u32;
        let mut most = 0;
        let on = |happened: &JobEvent| match happened {
            JobEvent::Began => {
                running += 1;
                most = most.max(running);
            }
            JobEvent::Step(..) => {}
            JobEvent::Ended(index, _) => {
                order.push(*index);
                running -= 1;
            }
        };
        let ended = run_all(&jobs, 2, &program, on).await.unwrap();
        assert!(ended.iter().all(|ended| *ended == Some(JobOutcome::Finished)), "{ended:?}");
        let place = |index: usize| order.iter().position(|ended| *ended == index);
        assert!(place(0) < place(1) && place(0) < place(2) && most == 2, "{order:?}, {most} at once");
    }

    #[tokio::test]
    async fn a_failure_ends_those_behind_it_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let (jobs, program) = jobs(dir.path(), &[("bad", None), ("b", Some(0)), ("c", None)]);
        let ended = run_all(&jobs, 1, &program, |_| {}).await.unwrap();
        let failed = |text: &str| Some(JobOutcome::Failed(text.to_owned()));
        assert_eq!(ended, [failed("spoiled"), failed("bad: spoiled"), Some(JobOutcome::Finished)]);
    }
}
