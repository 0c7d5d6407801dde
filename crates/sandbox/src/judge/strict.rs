//! Strict mode: one test of a program, run as a process would.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{difference, is_unsupported, reason_of};
use crate::compare::value::{Comparison, Value};
use crate::compare::{Tolerance, marshal, text};
use crate::executor::Executor;
use crate::outcome::ProgramOutcome;
use crate::reason::Reason;
use crate::rows::Tests;
use crate::run::{Budget, ExitStatus, ProgramSource, Run};
use crate::verdict::{ProgramOutput, excerpt};

/// The signals that end a process after an interrupt, and one whose stack overflows.
const SIGINT: i32 = 2;
const SIGSEGV: i32 = 11;

/// The result of one test.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub reason: Reason,
    pub detail: String,
    /// Whether the test failed because of something that the guest lacks.
    pub unsupported: bool,
    pub stdout: String,
    pub stderr: String,
    pub cpu: Duration,
    pub memory: u64,
    /// All that the program wrote, where it is kept.
    pub output: Option<ProgramOutput>,
}

impl Report {
    /// A test that was not run to its end.
    pub(crate) fn without_run(reason: Reason, detail: impl Into<String>) -> Self {
        Self {
            reason,
            detail: detail.into(),
            unsupported: false,
            stdout: String::new(),
            stderr: String::new(),
            cpu: Duration::ZERO,
            memory: 0,
            output: None,
        }
    }

    pub(crate) fn outcome(&self) -> ProgramOutcome {
        self.reason.outcome()
    }
}

/// Runs one test and compares its output with the expected one.
pub(crate) fn judge(
    executor: &mut dyn Executor,
    program: ProgramSource<'_>,
    (tests, index): (&Tests, usize),
    tolerance: Tolerance,
    budget: &Budget,
    cancel: &CancellationToken,
) -> Report {
    let input = tests.tests()[index].input.as_bytes();
    let run = match tests.function() {
        None => executor.process(program, input, budget, cancel),
        Some(name) => executor.call(program, name, input, budget, cancel),
    };
    let (reason, detail) = match reason_of(&run) {
        (Reason::Passed, _) => compare(&run, tests, index, tolerance),
        other => other,
    };
    let passed = reason.outcome() == ProgramOutcome::Pass;
    let kept = |bytes: &[u8]| if passed { String::new() } else { excerpt(bytes) };
    let unsupported = is_unsupported(&run);
    Report {
        reason,
        detail,
        unsupported,
        stdout: kept(&run.stdout),
        stderr: kept(&run.stderr),
        cpu: run.cpu,
        memory: run.memory,
        output: None,
    }
}

/// Runs a program on its only input, and keeps what it writes.
pub(crate) fn run_and_keep(
    executor: &mut dyn Executor,
    program: ProgramSource<'_>,
    input: &[u8],
    budget: &Budget,
    cancel: &CancellationToken,
) -> Report {
    let mut run = executor.process(program, input, budget, cancel);
    let (reason, detail) = reason_of(&run);
    let stdout = std::mem::take(&mut run.stdout);
    let stderr = std::mem::take(&mut run.stderr);
    Report {
        unsupported: is_unsupported(&run),
        cpu: run.cpu,
        memory: run.memory,
        output: Some(ProgramOutput { stdout, stderr, exit_code: exit_code(&run.status) }),
        ..Report::without_run(reason, detail)
    }
}

/// The exit code with which a process of CPython would end.
fn exit_code(status: &ExitStatus) -> Option<i32> {
    match status {
        ExitStatus::Returned(_) => Some(0),
        ExitStatus::Exited(code) => Some(*code),
        ExitStatus::Raised(text) if text.starts_with("KeyboardInterrupt") => Some(-SIGINT),
        // The stack overflowed, or the interpreter aborted.
        ExitStatus::Trapped(_) => Some(-SIGSEGV),
        ExitStatus::TimeLimit
        | ExitStatus::Starved
        | ExitStatus::NeedsMemory
        | ExitStatus::Cancelled
        | ExitStatus::Internal(_) => None,
        _ => Some(1),
    }
}

fn compare(run: &Run, tests: &Tests, index: usize, tolerance: Tolerance) -> (Reason, String) {
    let Some(_) = tests.function() else {
        let written = String::from_utf8_lossy(&run.stdout);
        let test = &tests.tests()[index];
        let mut found = test.outputs().map(|output| difference(&text::compare_within(&written, output, tolerance)));
        let first = found.next().unwrap_or((Reason::LineDiffers, String::new()));
        return if is_pass(&first) { first } else { found.find(is_pass).unwrap_or(first) };
    };
    let ExitStatus::Returned(bytes) = &run.status else {
        return (Reason::EndedEarly, "ended before the function returned".to_owned());
    };
    returned(bytes, tests.expected(index), |found, expected| found.answers(expected, tolerance))
}

fn is_pass((reason, _): &(Reason, String)) -> bool {
    reason.outcome() == ProgramOutcome::Pass
}

/// Compares what a function returned with the values that a test accepts, of which one is enough.
pub(super) fn returned(
    bytes: &[u8],
    accepted: &[Value],
    compare: impl Fn(&Value, &Value) -> Comparison,
) -> (Reason, String) {
    let most_parts = accepted.iter().map(Value::parts).max().unwrap_or(1);
    let Some(found) = marshal::read(bytes, most_parts) else {
        return (Reason::ValueDiffers, "returned a different value".to_owned());
    };
    let mut close = false;
    for expected in accepted {
        match compare(&found, expected) {
            Comparison::Equal => return (Reason::Passed, String::new()),
            Comparison::Close => close = true,
            Comparison::Different => {}
        }
    }
    match found {
        _ if close => (Reason::PassedWithinTolerance, String::new()),
        Value::Other(what) => (Reason::NotJson, format!("returned a value without a JSON equivalent: {what}")),
        _ => (Reason::ValueDiffers, "returned a different value".to_owned()),
    }
}
