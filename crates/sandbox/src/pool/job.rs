//! One program in the pool: its tests that are still to run, and what came of the others.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::judge::{self, Report};
use crate::sandbox::Cancel;
use crate::task::{Mode, Task};
use crate::verdict::{Invalid, Outcome, Verdict};

/// What a test is expected to cost besides its input: an instance and a short program.
const TEST_COST: Duration = Duration::from_millis(2);
/// Bytes of input that are expected to cost one microsecond more.
const BYTES_PER_US: usize = 20;

pub(super) type Done = Box<dyn FnOnce(Verdict) + Send>;

/// A program with its tests.
pub(super) struct Job {
    pub task: Arc<Task>,
    pub program: Arc<Result<String, Box<Verdict>>>,
    /// What compiling it gave, once that was done.
    code: Arc<OnceLock<Vec<u8>>>,
    pub cancel: Cancel,
    done: Option<Done>,
    /// Units: tests, or the whole program where its tests share an instance.
    units: usize,
    next: usize,
    /// Tests that are running, each with its own way to be stopped.
    running: Vec<(usize, Cancel)>,
    reports: Vec<Option<Report>>,
    /// The first test known to fail.
    failed: Option<usize>,
    /// The first by which it has used more than it may over all of them.
    spent: Option<usize>,
}

/// A piece of a job for one thread.
pub(super) struct Unit {
    pub task: Arc<Task>,
    pub program: Arc<Result<String, Box<Verdict>>>,
    pub code: Arc<OnceLock<Vec<u8>>>,
    pub cancel: Cancel,
    pub test: usize,
}

/// What came of a unit.
pub(super) enum Outturn {
    Test(Report),
    Whole(Box<Verdict>),
}

impl Outturn {
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Test(report) => report.outcome,
            Self::Whole(verdict) => verdict.outcome,
        }
    }
}

impl Job {
    pub(super) fn new(task: Task, cancel: Cancel, done: Done) -> Self {
        let program = judge::program(&task);
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
            spent: None,
        }
    }

    /// What the job is expected to take.
    pub(super) fn cost(&self) -> Duration {
        let tests = u32::try_from(self.task.tests.len()).unwrap_or(u32::MAX);
        TEST_COST * tests + Duration::from_micros((self.task.tests.bytes() / BYTES_PER_US) as u64)
    }

    /// The next unit, where one is left.
    pub(super) fn take(&mut self) -> Option<Unit> {
        if !self.has_more() {
            return None;
        }
        let test = self.next;
        self.next += 1;
        self.running.push((test, self.cancel.child()));
        self.again(test)
    }

    /// A unit that was taken and is to be run, or run again.
    pub(super) fn again(&self, test: usize) -> Option<Unit> {
        let (_, cancel) = self.running.iter().find(|(running, _)| *running == test)?;
        let cancel = cancel.clone();
        let (task, program, code) = (Arc::clone(&self.task), Arc::clone(&self.program), Arc::clone(&self.code));
        Some(Unit { task, program, code, cancel, test })
    }

    /// Stops a unit that will be run again.
    pub(super) fn interrupt(&mut self, test: usize) {
        let again = self.cancel.child();
        if let Some((_, cancel)) = self.running.iter_mut().find(|(running, _)| *running == test) {
            std::mem::replace(cancel, again).cancel();
        }
    }

    /// Whether a unit is left to hand out.
    pub(super) fn has_more(&self) -> bool {
        self.next < self.units && (self.failed.is_none() || self.task.runs_all())
    }

    /// Notes what came of a unit; the verdict, once it stands.
    pub(super) fn note(&mut self, test: usize, outturn: Outturn) -> Option<(Done, Verdict)> {
        self.running.retain(|(running, _)| *running != test);
        match outturn {
            Outturn::Whole(verdict) => return Some((self.done.take()?, *verdict)),
            Outturn::Test(report) => {
                // What is invalid ends the program even where all tests are to be run.
                if matches!(report.outcome, Outcome::Invalid(_)) {
                    self.next = self.units;
                }
                if report.outcome != Outcome::Pass {
                    let failed = self.failed.map_or(test, |first| first.min(test));
                    self.failed = Some(failed);
                    self.drop_after(failed);
                }
                self.reports[test] = Some(report);
                self.spend();
            }
        }
        if !self.running.is_empty() || self.has_more() {
            return None;
        }
        let verdict = self.verdict();
        Some((self.done.take()?, verdict))
    }

    /// Ends the program at the first test by which it has used more than it may over all of them.
    fn spend(&mut self) {
        let Some(most) = self.task.limits.program_cpu else { return };
        let mut used = Duration::ZERO;
        for test in 0..self.units {
            let Some(report) = &mut self.reports[test] else { return };
            used += report.cpu;
            if used > most {
                if report.outcome == Outcome::Pass {
                    report.outcome = Outcome::TimeLimit;
                    report.detail = judge::over_all_tests(most);
                }
                let failed = self.failed.map_or(test, |first| first.min(test));
                self.failed = Some(failed);
                self.spent = Some(test);
                self.next = self.units;
                for (_, cancel) in self.running.iter().filter(|(running, _)| *running > test) {
                    cancel.cancel();
                }
                return;
            }
        }
    }

    /// Stops what no longer counts.
    fn drop_after(&self, failed: usize) {
        if self.task.runs_all() {
            return;
        }
        for (_, cancel) in self.running.iter().filter(|(test, _)| *test > failed) {
            cancel.cancel();
        }
    }

    /// The verdict on a program whose threads have gone.
    pub(super) fn abandon(mut self) {
        let verdict = Verdict::without_run(
            Outcome::Invalid(Invalid::Cancelled),
            self.task.tests.len(),
            "the worker is about to end",
        );
        if let Some(done) = self.done.take() {
            done(verdict);
        }
    }

    fn verdict(&mut self) -> Verdict {
        let reports: Vec<Report> = self.reports.drain(..).flatten().collect();
        // Without a failure every test has its report; with one, those before it have, since they were handed out first.
        let last = if self.task.runs_all() { self.spent } else { self.failed };
        let counted = match last {
            Some(last) => &reports[..=last.min(reports.len() - 1)],
            None => &reports[..],
        };
        let invalid = counted.iter().find(|report| matches!(report.outcome, Outcome::Invalid(_)));
        let failing = invalid.or_else(|| counted.iter().find(|report| report.outcome != Outcome::Pass));
        let outcome = failing.map_or(Outcome::Pass, |report| report.outcome);
        let mut verdict =
            Verdict::without_run(outcome, self.task.tests.len(), failing.map_or("", |report| &report.detail));
        verdict.passed_tests = counted.iter().filter(|report| report.outcome == Outcome::Pass).count();
        verdict.run_tests = counted.len();
        verdict.failing_test = self.failed.filter(|_| invalid.is_none());
        verdict.cpu = counted.iter().map(|report| report.cpu).sum();
        verdict.peak_memory_bytes = counted.iter().map(|report| report.memory).max().unwrap_or(0);
        if let Some(report) = failing {
            verdict.unsupported = report.unsupported;
            verdict.stdout_excerpt.clone_from(&report.stdout);
            verdict.stderr_excerpt.clone_from(&report.stderr);
        }
        verdict.program = self.program.as_ref().as_ref().ok().cloned();
        verdict.rewarded(self.task.reward)
    }
}
