//! Answers in the shapes that SandboxFusion's clients know.

use axum::http::StatusCode;
use evenkeel_sandbox::{Invalid, ProgramOutcome, ProgramOutput, ProgramVerdict, Reason};
use serde::Serialize;
use serde_json::{Value, json};

/// What became of a request, with status 200.
#[derive(Debug, Serialize)]
pub(super) struct Reply {
    status: &'static str,
    message: String,
    /// Python has no step of its own for it.
    compile_result: Option<()>,
    run_result: Option<RunResult>,
    executor_pod_name: String,
    files: Value,
}

/// What a program did.
#[derive(Debug, Serialize)]
struct RunResult {
    status: &'static str,
    /// Seconds that the program worked: CPU time and sleep, which on an idle machine is wall time.
    execution_time: f64,
    cpu_time: f64,
    /// `None` after a time limit.
    return_code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// A request without an answer.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) detail: Value,
    label: &'static str,
}

impl Reply {
    /// As the original answers for faults of its own, and for what it does not have.
    pub(super) fn sandbox_error(message: String, worker: &str) -> Self {
        Self::new("SandboxError", message, None, worker)
    }

    fn new(status: &'static str, message: String, run_result: Option<RunResult>, worker: &str) -> Self {
        let executor_pod_name = worker.to_owned();
        let files = json!({});
        Self { status, message, compile_result: None, run_result, executor_pod_name, files }
    }

    /// # Errors
    /// What is no fault of the program, and may succeed with another attempt.
    pub(super) fn of(verdict: ProgramVerdict, worker: &str) -> Result<Self, Refused> {
        let ProgramVerdict { outcome, reason, detail, cpu, output, .. } = verdict;
        match outcome {
            ProgramOutcome::Invalid(
                Invalid::Starved | Invalid::InsufficientMemory | Invalid::Lost | Invalid::Cancelled,
            ) => return Err(Refused::late(&detail)),
            ProgramOutcome::Invalid(_) => return Ok(Self::sandbox_error(detail, worker)),
            _ => {}
        }
        let seconds = cpu.as_secs_f64();
        // A program that is too long was not run.
        let unrun =
            || ProgramOutput { stderr: detail.clone().into_bytes(), exit_code: Some(1), ..ProgramOutput::default() };
        let ProgramOutput { stdout, stderr, exit_code } = output.unwrap_or_else(unrun);
        let mut stderr = String::from_utf8_lossy(&stderr).into_owned();
        match reason {
            Reason::MemoryLimit => end_with(&mut stderr, "MemoryError"),
            Reason::OutputLimit => end_with(&mut stderr, "the output is cut off: it is longer than allowed"),
            Reason::Crashed => end_with(&mut stderr, &detail),
            _ => {}
        }
        let is_late = reason == Reason::TimeLimit;
        let result = RunResult {
            status: if is_late { "TimeLimitExceeded" } else { "Finished" },
            execution_time: seconds,
            cpu_time: seconds,
            return_code: exit_code,
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr,
        };
        let status = if exit_code == Some(0) { "Success" } else { "Failed" };
        Ok(Self::new(status, String::new(), Some(result), worker))
    }

    /// The status in metrics.
    pub(super) fn status(&self) -> &'static str {
        self.status
    }
}

fn end_with(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
}

impl Refused {
    fn new(status: StatusCode, detail: Value, label: &'static str) -> Self {
        Self { status, detail, label }
    }

    /// There was no result in time: the status that all clients try again after.
    pub(super) fn late(why: &str) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, why.into(), "late")
    }

    pub(super) fn invalid(faults: Vec<Value>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, faults.into(), "invalid")
    }

    pub(super) fn too_large(length: u64, max: u64) -> Self {
        let detail = format!("the request is {length} bytes, allowed: at most {max}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, detail.into(), "invalid")
    }

    pub(super) fn unreadable(why: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("the request cannot be read: {why}").into(), "invalid")
    }

    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not Found".into(), "invalid")
    }

    /// The status in metrics.
    pub(super) fn label(&self) -> &'static str {
        self.label
    }
}
