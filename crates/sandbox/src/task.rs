//! What to judge: a program, its tests, and the rules.

use std::sync::Arc;

use crate::compare::Tolerance;
use crate::extract::Extraction;
use crate::limits::ProgramLimits;
use crate::rows::Tests;

/// The rules under which a program is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Every test runs the program from the beginning, as a process would.
    #[default]
    Strict,
    /// Judges as LiveCodeBench's grader does, with its quirks, but without its loopholes.
    LiveCodeBench,
}

/// How passed tests turn into a reward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RewardRule {
    /// 1 if every test passed, otherwise 0.
    #[default]
    AllOrNothing,
    /// The fraction of the tests that passed. Every test is run.
    PassedFraction,
}

/// What the model wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramSubmission {
    /// A completion, from which the program is extracted.
    Completion(String),
    /// A program, which is run as it is.
    Program(String),
}

/// One program to judge.
#[derive(Clone, Debug)]
pub struct ProgramTask {
    /// What the model wrote.
    pub submission: ProgramSubmission,
    /// Tests that the program must pass.
    pub tests: Arc<Tests>,
    /// Rules by which the program is judged.
    pub mode: Mode,
    /// Limits on one test.
    pub limits: ProgramLimits,
    /// How the program is extracted. `None` for the rule of the mode.
    pub extraction: Option<Extraction>,
    /// How passed tests turn into a reward.
    pub reward: RewardRule,
    /// Run every test even after one failed. No effect in LiveCodeBench mode.
    pub run_all_tests: bool,
    /// How far floats may be from what a test expects: see [`Tolerance`]. No effect in LiveCodeBench mode.
    pub tolerance: Tolerance,
    /// Return everything that the program wrote and compare none of it, for callers that judge outputs themselves: the
    /// tests are one input. No effect in LiveCodeBench mode.
    pub keep_output: bool,
}

impl ProgramTask {
    /// A task with the default rules.
    #[must_use]
    pub fn new(submission: ProgramSubmission, tests: Arc<Tests>) -> Self {
        Self {
            submission,
            tests,
            mode: Mode::default(),
            limits: ProgramLimits::default(),
            extraction: None,
            reward: RewardRule::default(),
            run_all_tests: false,
            tolerance: Tolerance::default(),
            keep_output: false,
        }
    }

    pub(crate) fn extraction(&self) -> Extraction {
        self.extraction.unwrap_or(match self.mode {
            Mode::Strict => Extraction::LastProgram,
            Mode::LiveCodeBench => Extraction::LiveCodeBench,
        })
    }

    /// Whether tests after the first failure are run.
    pub(crate) fn runs_all(&self) -> bool {
        self.mode == Mode::Strict && (self.run_all_tests || self.reward == RewardRule::PassedFraction)
    }
}
