//! A program in the pool: the tests that are still to run, and the results of the others.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::judge::{self, Program, Report};
use crate::outcome::ProgramOutcome;
use crate::reason::Reason;
use crate::task::{Mode, ProgramTask};
use crate::verdict::ProgramVerdict;

/// Expected cost of a test apart from its input: an instance and a short program.
const TEST_COST: Duration = Duration::from_millis(2);
/// Bytes of input that are expected to cost a further microsecond.
const BYTES_PER_US: usize = 20;

pub(super) type Done = Box<dyn FnOnce(ProgramVerdict) + Send>;

/// A program with its tests.
pub(super) struct Job {
    pub task: Arc<ProgramTask>,
    pub program: Arc<Result<Program, Box<ProgramVerdict>>>,
    /// The compiled program, once compiled.
    code: Arc<OnceLock<Vec<u8>>>,
    pub cancel: CancellationToken,
    done: Option<Done>,
    /// Number of work units: the tests, or 1 if the tests share an instance.
    units: usize,
    next: usize,
    /// Tests that are running, each with its own cancellation.
    running: Vec<(usize, CancellationToken)>,
    reports: Vec<Option<Report>>,
    /// The first test known to fail.
    failed: Option<usize>,
    /// The first test at which the program exceeded its time limit over all tests.
    over_limit: Option<usize>,
}

/// A part of a job for one thread.
pub(super) struct WorkUnit {
    pub task: Arc<ProgramTask>,
    pub program: Arc<Result<Program, Box<ProgramVerdict>>>,
    pub code: Arc<OnceLock<Vec<u8>>>,
    pub cancel: CancellationToken,
    pub test: usize,
}

/// The result of a work unit.
pub(super) enum UnitResult {
    Test(Report),
    Program(Box<ProgramVerdict>),
}

impl UnitResult {
    pub(super) fn outcome(&self) -> ProgramOutcome {
        match self {
            Self::Test(report) => report.outcome(),
            Self::Program(verdict) => verdict.outcome,
        }
    }
}

impl Job {
    pub(super) fn new(task: ProgramTask, cancel: CancellationToken, done: Done) -> Self {
        let program = Program::of(&task);
        let units = match (&program, task.mode) {
            (Ok(_), Mode::Strict) => task.tests.len(),
            _ => 1,
        };
        Self {
            task: Arc::new(task),
            program: Arc::new(program),
            code: Arc::default(),
            cancel,
            done: Some(done),
            units,
            next: 0,
            running: Vec::new(),
            reports: vec![None; units],
            failed: None,
            over_limit: None,
        }
    }

    /// The expected duration of the job.
    pub(super) fn cost(&self) -> Duration {
        let tests = u32::try_from(self.task.tests.len()).unwrap_or(u32::MAX);
        TEST_COST * tests + Duration::from_micros((self.task.tests.bytes() / BYTES_PER_US) as u64)
    }

    /// The next unit, if any is left.
    pub(super) fn take(&mut self) -> Option<WorkUnit> {
        if !self.has_more() {
            return None;
        }
        let test = self.next;
        self.next += 1;
        self.running.push((test, self.cancel.child_token()));
        self.running_unit(test)
    }

    /// A unit that was taken, to be run for the first time or again.
    pub(super) fn running_unit(&self, test: usize) -> Option<WorkUnit> {
        let (_, cancel) = self.running.iter().find(|(running, _)| *running == test)?;
        let cancel = cancel.clone();
        let task = Arc::clone(&self.task);
        let program = Arc::clone(&self.program);
        let code = Arc::clone(&self.code);
        Some(WorkUnit { task, program, code, cancel, test })
    }

    /// Stops a unit that will be run again.
    pub(super) fn preempt(&mut self, test: usize) {
        let next = self.cancel.child_token();
        if let Some((_, cancel)) = self.running.iter_mut().find(|(running, _)| *running == test) {
            std::mem::replace(cancel, next).cancel();
        }
    }

    /// Whether any unit is left to hand out.
    pub(super) fn has_more(&self) -> bool {
        self.next < self.units && (self.failed.is_none() || self.task.runs_all())
    }

    /// Records the result of a unit. Returns the verdict once it is final.
    pub(super) fn record(&mut self, test: usize, result: UnitResult) -> Option<(Done, ProgramVerdict)> {
        self.running.retain(|(running, _)| *running != test);
        match result {
            UnitResult::Program(verdict) => return Some((self.done.take()?, *verdict)),
            UnitResult::Test(report) => {
                // An invalid test ends the program even if all tests are to be run.
                if matches!(report.outcome(), ProgramOutcome::Invalid(_)) {
                    self.next = self.units;
                }
                if report.outcome() != ProgramOutcome::Pass {
                    let failed = self.failed.map_or(test, |first| first.min(test));
                    self.failed = Some(failed);
                    self.cancel_after(failed);
                }
                self.reports[test] = Some(report);
                self.enforce_program_limit();
            }
        }
        if !self.running.is_empty() || self.has_more() {
            return None;
        }
        let verdict = self.verdict();
        Some((self.done.take()?, verdict))
    }

    /// Ends the program at the first test at which it exceeds its time limit over all tests.
    fn enforce_program_limit(&mut self) {
        let Some(limit) = self.task.limits.program_cpu else { return };
        let mut used = Duration::ZERO;
        for test in 0..self.units {
            let Some(report) = &mut self.reports[test] else { return };
            used += report.cpu;
            if used > limit {
                if report.outcome() == ProgramOutcome::Pass {
                    report.reason = Reason::ProgramTimeLimit;
                    report.detail = judge::over_all_tests(limit);
                }
                let failed = self.failed.map_or(test, |first| first.min(test));
                self.failed = Some(failed);
                self.over_limit = Some(test);
                self.next = self.units;
                for (_, cancel) in self.running.iter().filter(|(running, _)| *running > test) {
                    cancel.cancel();
                }
                return;
            }
        }
    }

    /// Cancels tests that no longer count.
    fn cancel_after(&self, failed: usize) {
        if self.task.runs_all() {
            return;
        }
        for (_, cancel) in self.running.iter().filter(|(test, _)| *test > failed) {
            cancel.cancel();
        }
    }

    /// Reports the verdict on a program whose pool is shutting down.
    pub(super) fn abandon(mut self) {
        let verdict =
            ProgramVerdict::without_run(Reason::Cancelled, self.task.tests.len(), "the worker is shutting down");
        if let Some(done) = self.done.take() {
            done(verdict);
        }
    }

    fn verdict(&mut self) -> ProgramVerdict {
        let reports: Vec<Report> = self.reports.drain(..).flatten().collect();
        // Without a failure every test has a report; otherwise at least those up to the failing one, since they were
        // handed out first.
        let last = if self.task.runs_all() { self.over_limit } else { self.failed };
        let counted = match last {
            Some(last) => &reports[..=last.min(reports.len() - 1)],
            None => &reports[..],
        };
        let invalid = counted.iter().find(|report| matches!(report.outcome(), ProgramOutcome::Invalid(_)));
        let failing = invalid.or_else(|| counted.iter().find(|report| report.outcome() != ProgramOutcome::Pass));
        let within_tolerance = counted.iter().any(|report| report.reason == Reason::PassedWithinTolerance);
        let passed = if within_tolerance { Reason::PassedWithinTolerance } else { Reason::Passed };
        let reason = failing.map_or(passed, |report| report.reason);
        let mut verdict =
            ProgramVerdict::without_run(reason, self.task.tests.len(), failing.map_or("", |report| &report.detail));
        verdict.passed_tests = counted.iter().filter(|report| report.outcome() == ProgramOutcome::Pass).count();
        verdict.run_tests = counted.len();
        verdict.failing_test = self.failed.filter(|_| invalid.is_none());
        verdict.cpu = counted.iter().map(|report| report.cpu).sum();
        verdict.peak_memory_bytes = counted.iter().map(|report| report.memory).max().unwrap_or(0);
        if let Some(report) = failing {
            verdict.unsupported = report.unsupported;
            verdict.stdout_excerpt.clone_from(&report.stdout);
            verdict.stderr_excerpt.clone_from(&report.stderr);
        }
        verdict.output = reports.into_iter().next().and_then(|report| report.output);
        let program = self.program.as_ref().as_ref().ok();
        verdict.program = program.and_then(Program::chosen).map(str::to_owned);
        verdict.rewarded(self.task.reward)
    }
}
