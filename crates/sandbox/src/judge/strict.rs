//! Strict mode: one test of a program, run as a process would.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{difference, is_unsupported, outcome_of};
use crate::compare::text::{self, Match};
use crate::compare::{marshal, value::Value};
use crate::executor::Executor;
use crate::rows::Tests;
use crate::sandbox::{Budget, ExitStatus, Run, Source};
use crate::verdict::{ProgramOutcome, excerpt};

/// The result of one test.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub outcome: ProgramOutcome,
    pub detail: String,
    /// It failed because of something that the guest lacks.
    pub unsupported: bool,
    pub stdout: String,
    pub stderr: String,
    pub cpu: Duration,
    pub memory: u64,
}

/// Runs one test.
pub(crate) fn judge(
    executor: &mut dyn Executor,
    program: Source<'_>,
    tests: &Tests,
    index: usize,
    budget: &Budget,
    cancel: &CancellationToken,
) -> Report {
    let input = tests.tests()[index].input.as_bytes();
    let run = match tests.function() {
        None => executor.process(program, input, budget, cancel),
        Some(name) => executor.call(program, name, input, budget, cancel),
    };
    let (outcome, detail) = match outcome_of(&run) {
        (ProgramOutcome::Pass, _) => compare(&run, tests, index),
        other => other,
    };
    let passed = outcome == ProgramOutcome::Pass;
    let kept = |bytes: &[u8]| if passed { String::new() } else { excerpt(bytes) };
    let unsupported = is_unsupported(&run);
    Report {
        outcome,
        detail,
        unsupported,
        stdout: kept(&run.stdout),
        stderr: kept(&run.stderr),
        cpu: run.cpu,
        memory: run.memory,
    }
}

fn compare(run: &Run, tests: &Tests, index: usize) -> (ProgramOutcome, String) {
    let Some(_) = tests.function() else {
        let found = text::compare(&String::from_utf8_lossy(&run.stdout), &tests.tests()[index].output);
        return match found {
            Match::Equal => (ProgramOutcome::Pass, String::new()),
            found => (ProgramOutcome::WrongAnswer, difference(&found)),
        };
    };
    let ExitStatus::Returned(bytes) = &run.status else {
        // It ended its process before it returned.
        return (ProgramOutcome::RuntimeError, "ended before the function returned".to_owned());
    };
    match returned(bytes, tests, index) {
        Returned::Expected => (ProgramOutcome::Pass, String::new()),
        Returned::Wrong(detail) => (ProgramOutcome::WrongAnswer, detail),
    }
}

/// What a function returned.
pub(super) enum Returned {
    /// The value that the test expects.
    Expected,
    /// Another value, with the detail of the verdict.
    Wrong(String),
}

/// Compares what a function returned with what a test expects.
pub(super) fn returned(bytes: &[u8], tests: &Tests, index: usize) -> Returned {
    let expected = tests.expected(index);
    match (expected.and_then(|expected| marshal::read(bytes, expected.parts())), expected) {
        (Some(returned), Some(expected)) if returned.satisfies(expected) => Returned::Expected,
        (Some(Value::Other(what)), _) => Returned::Wrong(format!("returned a value without a JSON equivalent: {what}")),
        _ => Returned::Wrong("returned a different value".to_owned()),
    }
}
