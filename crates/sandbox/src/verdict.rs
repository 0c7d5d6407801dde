//! Verdicts on programs: what they did, and their reward.

use std::time::Duration;

use crate::outcome::ProgramOutcome;
use crate::reason::Reason;
use crate::task::RewardRule;

/// Most bytes of standard output and of standard error in a verdict.
pub const EXCERPT_BYTES: usize = 2048;

/// What the reference grader would report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraderResult {
    /// 1 for true, 0 for false, or a negative code, up to the first that is not 1.
    pub results: Vec<i32>,
    /// Error code of the grader, if any.
    pub error: Option<i32>,
}

/// What a program wrote and how it ended, for [`ProgramTask::keep_output`](crate::ProgramTask::keep_output).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramOutput {
    /// Standard output, up to the limit on output.
    pub stdout: Vec<u8>,
    /// Standard error, with the traceback of an uncaught exception.
    pub stderr: Vec<u8>,
    /// The exit code of a process that ends like this, negative for a signal; `None` where the program was stopped.
    pub exit_code: Option<i32>,
}

/// The verdict on one program.
#[derive(Clone, Debug)]
pub struct ProgramVerdict {
    /// What the program did.
    pub outcome: ProgramOutcome,
    /// What exactly led to it.
    pub reason: Reason,
    /// The reward before any shaping, from 0 to 1. `None` if the outcome is invalid.
    pub reward: Option<f64>,
    /// Number of tests that passed.
    pub passed_tests: usize,
    /// Number of tests that were run and count.
    pub run_tests: usize,
    /// Number of tests of the task.
    pub total_tests: usize,
    /// Index of the first test that failed, from 0.
    pub failing_test: Option<usize>,
    /// What went wrong, for people, with the limitation of the sandbox that the program ran into, if any.
    pub detail: String,
    /// Whether the exception indicates that the test failed because of something that a native process has and the
    /// sandbox lacks; `detail` names it. A program can raise such an exception itself.
    pub unsupported: bool,
    /// Beginning of the standard output in the failing test.
    pub stdout_excerpt: String,
    /// Beginning of the standard error in the failing test.
    pub stderr_excerpt: String,
    /// CPU time of all tests that count.
    pub cpu: Duration,
    /// Peak memory of a test in bytes.
    pub peak_memory_bytes: u64,
    /// In LiveCodeBench mode, the grader's results.
    pub grader: Option<GraderResult>,
    /// The program that was run.
    pub program: Option<String>,
    /// Output of the program, if all of it is kept.
    pub output: Option<ProgramOutput>,
}

impl ProgramVerdict {
    /// A verdict without any test run.
    pub(crate) fn without_run(reason: Reason, total_tests: usize, detail: impl Into<String>) -> Self {
        let outcome = reason.outcome();
        Self {
            outcome,
            reason,
            reward: (!matches!(outcome, ProgramOutcome::Invalid(_))).then_some(0.0),
            passed_tests: 0,
            run_tests: 0,
            total_tests,
            failing_test: None,
            detail: detail.into(),
            unsupported: false,
            stdout_excerpt: String::new(),
            stderr_excerpt: String::new(),
            cpu: Duration::ZERO,
            peak_memory_bytes: 0,
            grader: None,
            program: None,
            output: None,
        }
    }

    /// Whether every test passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.outcome == ProgramOutcome::Pass
    }

    /// Sets the reward according to the rule.
    pub(crate) fn rewarded(mut self, rule: RewardRule) -> Self {
        self.reward = match (self.outcome, rule) {
            (ProgramOutcome::Invalid(_), _) => None,
            (ProgramOutcome::Pass, _) => Some(1.0),
            (_, RewardRule::AllOrNothing) => Some(0.0),
            #[allow(clippy::cast_precision_loss)]
            (_, RewardRule::PassedFraction) => Some(self.passed_tests as f64 / self.total_tests.max(1) as f64),
        };
        self
    }
}

/// The beginning of an output, for a verdict.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(EXCERPT_BYTES)];
    String::from_utf8_lossy(cut).into_owned()
}
