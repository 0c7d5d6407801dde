//! What is asked: a program, tests, and by which rules.

use std::sync::Arc;

use crate::extract::Extraction;
use crate::limits::Limits;
use crate::rows::Tests;

/// Which rules a program is run under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// As a process of its own would run, from the beginning for every test.
    #[default]
    Strict,
    /// As LiveCodeBench's grader judges: its oddities included, its holes closed.
    LiveCodeBench,
}

/// How passed tests become a reward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RewardRule {
    /// 1 where every test passed, otherwise 0.
    #[default]
    AllOrNothing,
    /// The part of the tests that passed. Every test is run.
    PassedFraction,
}

/// What the policy wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The whole output: the program is extracted from it.
    Completion(String),
    /// The program, taken as it is.
    Program(String),
}

/// One program to judge.
#[derive(Clone, Debug)]
pub struct Task {
    /// What was written.
    pub answer: Answer,
    /// The tests.
    pub tests: Arc<Tests>,
    /// The rules.
    pub mode: Mode,
    /// Limits on one test.
    pub limits: Limits,
    /// How the program is found; by default the rule of the mode.
    pub extraction: Option<Extraction>,
    /// How passed tests become a reward.
    pub reward: RewardRule,
    /// Run every test even after one failed. The reference grader does not, so this has no effect in its mode.
    pub run_all_tests: bool,
}

impl Task {
    /// A task by the defaults.
    #[must_use]
    pub fn new(answer: Answer, tests: Arc<Tests>) -> Self {
        Self {
            answer,
            tests,
            mode: Mode::default(),
            limits: Limits::default(),
            extraction: None,
            reward: RewardRule::default(),
            run_all_tests: false,
        }
    }

    pub(crate) fn extraction(&self) -> Extraction {
        self.extraction.unwrap_or(match self.mode {
            Mode::Strict => Extraction::LastCompleteFence,
            Mode::LiveCodeBench => Extraction::LiveCodeBench,
        })
    }

    /// Whether tests after the first that fails are run.
    pub(crate) fn runs_all(&self) -> bool {
        self.mode == Mode::Strict && (self.run_all_tests || self.reward == RewardRule::PassedFraction)
    }
}
