//! LiveCodeBench mode: a program is loaded once, and its tests run in order up to the first failure.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::strict;
use super::{difference, is_unsupported, reason_of};
use crate::compare::text::{self, Match};
use crate::compare::value::{Comparison, Value};
use crate::executor::Executor;
use crate::outcome::ProgramOutcome;
use crate::reason::Reason;
use crate::rows::Tests;
use crate::run::{Budget, ExitStatus, Run};
use crate::task::{ProgramTask, RewardRule};
use crate::verdict::{GraderResult, ProgramVerdict, excerpt};

/// The grader's result codes.
const WRONG_ANSWER: i32 = -2;
const TIME_LIMIT: i32 = -3;
const RUNTIME_ERROR: i32 = -4;
/// Reported if the grader's process died. The list of results is then a single `WRONG_ANSWER`.
const RUNNER_ERROR: i32 = -5;

/// Runs the tests of a program.
pub(crate) fn judge(
    executor: &mut dyn Executor,
    program: &str,
    task: &ProgramTask,
    budget: &Budget,
    cancel: &CancellationToken,
) -> ProgramVerdict {
    let tests = &*task.tests;
    let program_limit = task.limits.program_cpu;
    let functional = tests.function().is_some();
    let mut record = Record { results: Vec::new(), cpu: Duration::ZERO, memory: 0, total: tests.len(), functional };
    let loaded = executor.load(program.as_bytes(), tests.function().unwrap_or_default(), budget, cancel);
    if let ProgramOutcome::Invalid(_) = reason_of(&loaded).0.outcome() {
        return record.failed(&loaded, reason_of(&loaded), vec![], None);
    }
    if !matches!(loaded.status, ExitStatus::Returned(_)) {
        // Whatever the grader catches here, its own alarm included, makes the list a single runtime error.
        let (results, error) =
            if survives(&loaded.status) { (RUNTIME_ERROR, RUNTIME_ERROR) } else { (WRONG_ANSWER, RUNNER_ERROR) };
        return record.failed(&loaded, ended(&loaded), vec![results], Some(error));
    }
    record.cpu += loaded.cpu;
    for index in 0..tests.len() {
        let run = executor.grade(tests.tests()[index].input.as_bytes(), cancel);
        match step(&run, tests, index) {
            TestStep::Passed if program_limit.is_some_and(|limit| record.cpu + run.cpu > limit) => {
                let results = [record.results.as_slice(), &[TIME_LIMIT]].concat();
                let ended = (Reason::ProgramTimeLimit, super::over_all_tests(program_limit.unwrap_or_default()));
                return record.failed(&run, ended, results, Some(TIME_LIMIT));
            }
            TestStep::Passed => record.passed(&run),
            TestStep::Failed { reason, detail, result, error } => {
                let results = [record.results.as_slice(), &[result]].concat();
                return record.failed(&run, (reason, detail), results, Some(error));
            }
            TestStep::GraderDied { reason, detail, result, error } => {
                return record.failed(&run, (reason, detail), vec![result], Some(error));
            }
        }
    }
    record.verdict(Reason::Passed, String::new(), None, GraderResult { results: vec![1; tests.len()], error: None })
}

/// What one test adds to the grader's list.
enum TestStep {
    Passed,
    /// The list ends with this.
    Failed {
        reason: Reason,
        detail: String,
        result: i32,
        error: i32,
    },
    /// The list consists of this alone.
    GraderDied {
        reason: Reason,
        detail: String,
        result: i32,
        error: i32,
    },
}

fn step(run: &Run, tests: &Tests, index: usize) -> TestStep {
    let ExitStatus::Returned(bytes) = &run.status else {
        let (reason, detail) = ended(run);
        let (result, error) = match &run.status {
            ExitStatus::TimeLimit => (TIME_LIMIT, TIME_LIMIT),
            // The grader recognises its alarm by the name of the exception.
            ExitStatus::Raised(text) if text.to_lowercase().contains("timeoutexception") => (TIME_LIMIT, TIME_LIMIT),
            status if survives(status) => (RUNTIME_ERROR, RUNTIME_ERROR),
            _ => return TestStep::GraderDied { reason, detail, result: WRONG_ANSWER, error: RUNNER_ERROR },
        };
        return TestStep::Failed { reason, detail, result, error };
    };
    if tests.function().is_some() {
        return match strict::returned(bytes, &tests.expected(index)[..1], as_the_grader) {
            (Reason::Passed, _) => TestStep::Passed,
            (reason, detail) => TestStep::Failed { reason, detail, result: 0, error: WRONG_ANSWER },
        };
    }
    let found = text::compare(&String::from_utf8_lossy(bytes), &tests.tests()[index].output);
    let (reason, detail) = difference(&found);
    match found {
        Match::Equal => TestStep::Passed,
        // An exception in the comparison ends the grader's loop.
        Match::Raises(_) => TestStep::GraderDied { reason, detail, result: RUNTIME_ERROR, error: RUNTIME_ERROR },
        _ => TestStep::Failed { reason, detail, result: WRONG_ANSWER, error: WRONG_ANSWER },
    }
}

/// Whether the grader's process would survive. It does not survive `os._exit`, a crash, or exceptions that do not
/// derive from `Exception`.
fn survives(status: &ExitStatus) -> bool {
    !matches!(status, ExitStatus::Fatal(_) | ExitStatus::Exited(_) | ExitStatus::Trapped(_) | ExitStatus::OutputLimit)
}

fn ended(run: &Run) -> (Reason, String) {
    match reason_of(run) {
        // A process that ends itself has not completed the test.
        (Reason::Passed, _) => (Reason::EndedEarly, "ended its process before the test was over".to_owned()),
        other => other,
    }
}

/// The grader compares with Python's equality.
fn as_the_grader(found: &Value, expected: &Value) -> Comparison {
    if found.satisfies(expected) { Comparison::Equal } else { Comparison::Different }
}

struct Record {
    results: Vec<i32>,
    cpu: Duration,
    memory: u64,
    total: usize,
    functional: bool,
}

impl Record {
    fn passed(&mut self, run: &Run) {
        self.results.push(1);
        self.cpu += run.cpu;
        self.memory = self.memory.max(run.memory);
    }

    fn failed(
        mut self,
        run: &Run,
        (reason, detail): (Reason, String),
        results: Vec<i32>,
        error: Option<i32>,
    ) -> ProgramVerdict {
        self.cpu += run.cpu;
        self.memory = self.memory.max(run.memory);
        self.verdict(reason, detail, Some(run), GraderResult { results, error })
    }

    fn verdict(self, reason: Reason, detail: String, failing: Option<&Run>, grader: GraderResult) -> ProgramVerdict {
        let passed = self.results.len();
        let invalid = matches!(reason.outcome(), ProgramOutcome::Invalid(_));
        let written = failing.map(|run| match &run.status {
            // A returned value is not text.
            ExitStatus::Returned(captured) if !self.functional => excerpt(captured),
            _ => excerpt(&run.stdout),
        });
        ProgramVerdict {
            passed_tests: passed,
            run_tests: (passed + usize::from(failing.is_some())).min(self.total),
            failing_test: failing.filter(|_| !invalid).map(|_| passed.min(self.total - 1)),
            stdout_excerpt: written.unwrap_or_default(),
            stderr_excerpt: failing.map(|run| excerpt(&run.stderr)).unwrap_or_default(),
            cpu: self.cpu,
            peak_memory_bytes: self.memory,
            grader: (!invalid).then_some(grader),
            unsupported: failing.is_some_and(is_unsupported),
            ..ProgramVerdict::without_run(reason, self.total, detail)
        }
        .rewarded(RewardRule::AllOrNothing)
    }
}
