//! Verdicts.

use std::time::Duration;

use crate::task::RewardRule;

/// Most bytes of standard output and of standard error in a verdict.
pub const EXCERPT_BYTES: usize = 2048;

/// What a program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProgramOutcome {
    /// Every test passed.
    Pass,
    /// A test had the wrong output.
    WrongAnswer,
    /// It raised an exception or terminated abnormally.
    RuntimeError,
    /// It does not compile.
    CompileError,
    /// Used more time than allowed.
    TimeLimit,
    /// Used more memory than allowed.
    MemoryLimit,
    /// Wrote more output than allowed.
    OutputLimit,
    /// The completion contains no program.
    NoCode,
    /// There is no verdict, through no fault of the program.
    Invalid(Invalid),
}

/// Why there is no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Invalid {
    /// The tests are invalid: a defect of the data.
    BadTests,
    /// The machine was too busy to give the program its CPU time within the wall clock limit.
    Starved,
    /// The machine had less memory available than the program was allowed.
    InsufficientMemory,
    /// The worker process was ended from outside twice, for example by the out-of-memory killer.
    Lost,
    /// The verdict is no longer needed.
    Cancelled,
    /// A defect of this worker.
    Internal,
}

impl ProgramOutcome {
    /// Its name in snake case, for rows, metrics and reason codes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::WrongAnswer => "wrong_answer",
            Self::RuntimeError => "runtime_error",
            Self::CompileError => "compile_error",
            Self::TimeLimit => "time_limit",
            Self::MemoryLimit => "memory_limit",
            Self::OutputLimit => "output_limit",
            Self::NoCode => "no_code",
            Self::Invalid(Invalid::BadTests) => "bad_tests",
            Self::Invalid(Invalid::Starved) => "starved",
            Self::Invalid(Invalid::InsufficientMemory) => "insufficient_memory",
            Self::Invalid(Invalid::Lost) => "lost",
            Self::Invalid(Invalid::Cancelled) => "cancelled",
            Self::Invalid(Invalid::Internal) => "internal",
        }
    }
}

/// What the reference grader would report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraderResult {
    /// 1 for true, 0 for false, or a negative code, up to the first that is not 1.
    pub results: Vec<i32>,
    /// Its error code, if any.
    pub error: Option<i32>,
}

/// The verdict on one program.
#[derive(Clone, Debug)]
pub struct ProgramVerdict {
    /// The outcome.
    pub outcome: ProgramOutcome,
    /// The reward before any shaping, from 0 to 1. `None` if the outcome is invalid.
    pub reward: Option<f64>,
    /// Number of tests that passed.
    pub passed_tests: usize,
    /// Number of tests that were run and count.
    pub run_tests: usize,
    /// Number of tests.
    pub total_tests: usize,
    /// Index of the first test that failed, from 0.
    pub failing_test: Option<usize>,
    /// What went wrong, for people, with the limitation of the sandbox that the program ran into, if any.
    pub detail: String,
    /// Whether the exception indicates that the test failed because of something that a native process has and the sandbox lacks; `detail`
    /// names it. A program can raise such an exception itself.
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
}

impl ProgramVerdict {
    /// A verdict without any test run.
    pub(crate) fn without_run(outcome: ProgramOutcome, total_tests: usize, detail: impl Into<String>) -> Self {
        Self {
            outcome,
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
