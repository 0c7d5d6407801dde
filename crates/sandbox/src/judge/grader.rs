//! A whole program by the rules of LiveCodeBench's grader: loaded once, its tests in order, up to the first that fails.

use std::time::Duration;

use super::{difference, is_unsupported, meaning, strict};
use crate::compare::text::{self, Match};
use crate::place::Place;
use crate::rows::Tests;
use crate::sandbox::{Budget, Cancel, Ending, Run};
use crate::task::{RewardRule, Task};
use crate::verdict::{GraderResult, Outcome, Verdict, excerpt};

/// The grader's codes.
const WRONG_ANSWER: i32 = -2;
const TIME_LIMIT: i32 = -3;
const RUNTIME_ERROR: i32 = -4;
/// What it notes when its own process is gone; the list then holds one `WRONG_ANSWER`.
const RUNNER_ERROR: i32 = -5;

/// Runs the tests of a program.
pub(crate) fn judge(place: &mut dyn Place, program: &str, task: &Task, budget: &Budget, cancel: &Cancel) -> Verdict {
    let (tests, most) = (&*task.tests, task.limits.program_cpu);
    let functional = tests.function().is_some();
    let mut record = Record { results: Vec::new(), cpu: Duration::ZERO, memory: 0, total: tests.len(), functional };
    let loaded = place.load(program.as_bytes(), tests.function().unwrap_or_default(), budget, cancel);
    if let Outcome::Invalid(_) = meaning(&loaded).0 {
        return record.failed(&loaded, meaning(&loaded), vec![], None);
    }
    if !matches!(loaded.ending, Ending::Returned(_)) {
        // Whatever the grader catches here, its own alarm included, makes the whole list one runtime error.
        let (results, error) =
            if survives(&loaded.ending) { (RUNTIME_ERROR, RUNTIME_ERROR) } else { (WRONG_ANSWER, RUNNER_ERROR) };
        return record.failed(&loaded, ended(&loaded), vec![results], Some(error));
    }
    record.cpu += loaded.cpu;
    for index in 0..tests.len() {
        let run = place.grade(tests.tests()[index].input.as_bytes(), cancel);
        match step(&run, tests, index) {
            Step::Passed if most.is_some_and(|most| record.cpu + run.cpu > most) => {
                let results = [record.results.as_slice(), &[TIME_LIMIT]].concat();
                let said = (Outcome::TimeLimit, super::over_all_tests(most.unwrap_or_default()));
                return record.failed(&run, said, results, Some(TIME_LIMIT));
            }
            Step::Passed => record.passed(&run),
            Step::Failed { outcome, detail, result, error } => {
                let results = [record.results.as_slice(), &[result]].concat();
                return record.failed(&run, (outcome, detail), results, Some(error));
            }
            Step::Gone { outcome, detail, result, error } => {
                return record.failed(&run, (outcome, detail), vec![result], Some(error));
            }
        }
    }
    record.verdict(Outcome::Pass, String::new(), None, GraderResult { results: vec![1; tests.len()], error: None })
}

/// What one test adds to the grader's list.
enum Step {
    Passed,
    /// The list ends with this.
    Failed {
        outcome: Outcome,
        detail: String,
        result: i32,
        error: i32,
    },
    /// The list is only this.
    Gone {
        outcome: Outcome,
        detail: String,
        result: i32,
        error: i32,
    },
}

fn step(run: &Run, tests: &Tests, index: usize) -> Step {
    let Ending::Returned(bytes) = &run.ending else {
        let (outcome, detail) = ended(run);
        let (result, error) = match &run.ending {
            Ending::TimeLimit => (TIME_LIMIT, TIME_LIMIT),
            // It tells its alarm by name from other exceptions.
            Ending::Raised(text) if text.to_lowercase().contains("timeoutexception") => (TIME_LIMIT, TIME_LIMIT),
            ending if survives(ending) => (RUNTIME_ERROR, RUNTIME_ERROR),
            _ => return Step::Gone { outcome, detail, result: WRONG_ANSWER, error: RUNNER_ERROR },
        };
        return Step::Failed { outcome, detail, result, error };
    };
    if tests.function().is_some() {
        return match strict::returned(bytes, tests, index) {
            Ok(()) => Step::Passed,
            Err(detail) => Step::Failed { outcome: Outcome::WrongAnswer, detail, result: 0, error: WRONG_ANSWER },
        };
    }
    let found = text::compare(&String::from_utf8_lossy(bytes), &tests.tests()[index].output);
    let detail = difference(&found);
    match found {
        Match::Equal => Step::Passed,
        // The exception of the comparison leaves the grader's loop.
        Match::Raises(_) => {
            Step::Gone { outcome: Outcome::WrongAnswer, detail, result: RUNTIME_ERROR, error: RUNTIME_ERROR }
        }
        _ => Step::Failed { outcome: Outcome::WrongAnswer, detail, result: WRONG_ANSWER, error: WRONG_ANSWER },
    }
}

/// Whether the grader's process outlives it: what it does not is `os._exit`, a crash, and exceptions that are no `Exception`.
fn survives(ending: &Ending) -> bool {
    !matches!(ending, Ending::Died(_) | Ending::Exited(_) | Ending::Trapped(_) | Ending::OutputLimit)
}

fn ended(run: &Run) -> (Outcome, String) {
    match meaning(run) {
        // A process that ends itself has not answered.
        (Outcome::Pass, _) => (Outcome::RuntimeError, "ended its process before the test was over".to_owned()),
        other => other,
    }
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
        (outcome, detail): (Outcome, String),
        results: Vec<i32>,
        error: Option<i32>,
    ) -> Verdict {
        self.cpu += run.cpu;
        self.memory = self.memory.max(run.memory);
        self.verdict(outcome, detail, Some(run), GraderResult { results, error })
    }

    fn verdict(self, outcome: Outcome, detail: String, failing: Option<&Run>, grader: GraderResult) -> Verdict {
        let passed = self.results.len();
        let invalid = matches!(outcome, Outcome::Invalid(_));
        let written = failing.map(|run| match &run.ending {
            // What a function returned is no text.
            Ending::Returned(captured) if !self.functional => excerpt(captured),
            _ => excerpt(&run.stdout),
        });
        Verdict {
            passed_tests: passed,
            run_tests: (passed + usize::from(failing.is_some())).min(self.total),
            failing_test: failing.filter(|_| !invalid).map(|_| passed.min(self.total - 1)),
            stdout_excerpt: written.unwrap_or_default(),
            stderr_excerpt: failing.map(|run| excerpt(&run.stderr)).unwrap_or_default(),
            cpu: self.cpu,
            peak_memory_bytes: self.memory,
            grader: (!invalid).then_some(grader),
            unsupported: failing.is_some_and(is_unsupported),
            ..Verdict::without_run(outcome, self.total, detail)
        }
        .rewarded(RewardRule::AllOrNothing)
    }
}
