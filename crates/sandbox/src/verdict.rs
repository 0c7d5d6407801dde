//! What was found.

use std::time::Duration;

use crate::task::RewardRule;

/// Bytes of output and of errors that a verdict repeats.
pub const EXCERPT_BYTES: usize = 2048;

/// What a program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Every test passed.
    Pass,
    /// A test gave another output.
    WrongAnswer,
    /// It raised, or ended abnormally.
    RuntimeError,
    /// It is no program.
    CompileError,
    /// More time than allowed.
    TimeLimit,
    /// More memory than allowed.
    MemoryLimit,
    /// More output than allowed.
    OutputLimit,
    /// The completion holds no program.
    NoCode,
    /// Not the program's fault: no verdict.
    Invalid(Invalid),
}

/// Why there is no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Invalid {
    /// The tests cannot be read: a defect of the data.
    BadTests,
    /// The machine was too busy for the wall clock's limit.
    Starved,
    /// The machine had less memory than the program was allowed.
    Crowded,
    /// The process that ran it was ended from outside, twice: by the machine's out-of-memory killer, say.
    Lost,
    /// Nobody waits any more.
    Cancelled,
    /// A defect of this worker.
    Internal,
}

impl Outcome {
    /// Its name in lower case, for rows, metrics and reason codes.
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
            Self::Invalid(Invalid::Crowded) => "crowded",
            Self::Invalid(Invalid::Lost) => "lost",
            Self::Invalid(Invalid::Cancelled) => "cancelled",
            Self::Invalid(Invalid::Internal) => "internal",
        }
    }
}

/// What the reference grader would have written down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraderResult {
    /// 1 for true, 0 for false, its negative codes as they are; it ends with the first that is not 1.
    pub results: Vec<i32>,
    /// Its error code, where it gives one.
    pub error: Option<i32>,
}

/// The verdict on one program.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What it did.
    pub outcome: Outcome,
    /// The reward before any shaping, 0 to 1; none where there is no verdict.
    pub reward: Option<f64>,
    /// Tests that passed.
    pub passed_tests: usize,
    /// Tests that were run and count.
    pub run_tests: usize,
    /// Tests that there are.
    pub total_tests: usize,
    /// The first test that failed, from 0.
    pub failing_test: Option<usize>,
    /// For people: what went wrong, and where the sandbox differs from a native process if the program ran into that.
    pub detail: String,
    /// The test failed by what the sandbox lacks and a native process has, as far as the exception says; `detail` names it. A program can
    /// say so of itself.
    pub unsupported: bool,
    /// Beginning of the standard output in the failing test.
    pub stdout_excerpt: String,
    /// Beginning of the standard error in the failing test.
    pub stderr_excerpt: String,
    /// CPU time over all tests that count.
    pub cpu: Duration,
    /// Most memory in one test, bytes.
    pub peak_memory_bytes: u64,
    /// In the mode of the reference grader: its list and code.
    pub grader: Option<GraderResult>,
    /// The program that was run.
    pub program: Option<String>,
}

impl Verdict {
    /// A verdict on no test at all.
    pub(crate) fn without_run(outcome: Outcome, total_tests: usize, detail: impl Into<String>) -> Self {
        Self {
            outcome,
            reward: (!matches!(outcome, Outcome::Invalid(_))).then_some(0.0),
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
        self.outcome == Outcome::Pass
    }

    /// Sets the reward that the rule gives.
    pub(crate) fn rewarded(mut self, rule: RewardRule) -> Self {
        self.reward = match (self.outcome, rule) {
            (Outcome::Invalid(_), _) => None,
            (Outcome::Pass, _) => Some(1.0),
            (_, RewardRule::AllOrNothing) => Some(0.0),
            #[allow(clippy::cast_precision_loss)]
            (_, RewardRule::PassedFraction) => Some(self.passed_tests as f64 / self.total_tests.max(1) as f64),
        };
        self
    }
}

/// The beginning of a text, for a verdict.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(EXCERPT_BYTES)];
    String::from_utf8_lossy(cut).into_owned()
}
