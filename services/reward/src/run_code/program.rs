//! Runs the program of a request in the sandbox.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_sandbox::rows::{Test, TestKind, Tests};
use evenkeel_sandbox::{ProgramSubmission, ProgramTask, ProgramVerdict};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::reply::{Refused, Reply};
use super::request::RunCode;
use crate::settings::HttpSettings;
use crate::verifier::{NotSubmitted, Verifier};

/// Pause before the next attempt where the sandbox's queue is full.
const RETRY: Duration = Duration::from_millis(20);

/// Runs a program and waits for its result until then, in the queue as well.
///
/// # Errors
/// There is no result in time, or none for a reason that another attempt may not have.
pub(super) async fn run(
    verifier: &Arc<Verifier>,
    request: RunCode,
    settings: &HttpSettings,
    until: Instant,
    worker: &str,
) -> Result<Reply, Refused> {
    let late = || Refused::late("the program had no result in time: this worker is busy");
    let wall = until.saturating_duration_since(Instant::now());
    let task = match task(verifier, request, settings, wall) {
        Ok(task) => task,
        Err(reason) => return Ok(Reply::sandbox_error(reason, worker)),
    };
    loop {
        // Dropping it, as where the client has gone, ends the program.
        let cancel = CancellationToken::new();
        let _ends = cancel.clone().drop_guard();
        let (sender, receiver) = oneshot::channel();
        let submitting = {
            let verifier = Arc::clone(verifier);
            let task = task.clone();
            // It waits while the interpreter is prepared.
            tokio::task::spawn_blocking(move || {
                verifier.run_program(task, cancel, move |verdict| drop(sender.send(verdict)))
            })
        };
        match timeout_at(until, submitting).await {
            Err(_) => return Err(late()),
            Ok(Err(_)) => return Err(Refused::late("the server is shutting down")),
            Ok(Ok(Err(NotSubmitted::Unavailable(why)))) => return Ok(Reply::sandbox_error(why, worker)),
            Ok(Ok(Err(NotSubmitted::QueueFull))) => {
                if Instant::now() + RETRY >= until {
                    return Err(late());
                }
                sleep(RETRY).await;
            }
            Ok(Ok(Ok(()))) => {
                let verdict: ProgramVerdict = match timeout_at(until, receiver).await {
                    Err(_) => return Err(late()),
                    Ok(verdict) => verdict.map_err(|_| Refused::late("the sandbox gave no result"))?,
                };
                return Reply::of(verdict, worker);
            }
        }
    }
}

/// The error says why the program cannot be run.
fn task(verifier: &Verifier, request: RunCode, settings: &HttpSettings, wall: Duration) -> Result<ProgramTask, String> {
    let RunCode { code, stdin, run_timeout, memory, .. } = request;
    let mut limits = verifier.limits_up_to(memory);
    // A program that never ends must be told before its client gives up.
    let cpu = Duration::from_secs_f64(run_timeout * settings.slowdown).min(wall * 3 / 4);
    limits.cpu = cpu.min(limits.cpu);
    limits.wall = wall.max(limits.cpu);
    let tests = Tests::new(vec![Test::new(TestKind::Stdin, stdin, "")], None).map_err(|error| error.to_string())?;
    let program = ProgramSubmission::Program(code);
    Ok(ProgramTask { limits, keep_output: true, ..ProgramTask::new(program, Arc::new(tests)) })
}
