//! Turns what a program did into outcomes.

mod caveat;
mod choose;
mod grader;
mod program;
mod strict;

use std::time::Duration;

use crate::compare::text::Match;
use crate::reason::Reason;
use crate::run::{ExitStatus, Run};

pub(crate) use grader::judge as judge_by_grader;
pub(crate) use program::Program;
pub(crate) use strict::{Report, judge as judge_strictly, run_and_keep};

/// The reason of a run as far as the exit status determines it, with a detail. `Passed` means that the output is still
/// to be compared.
pub(crate) fn reason_of(run: &Run) -> (Reason, String) {
    match &run.status {
        ExitStatus::Returned(_) | ExitStatus::Exited(0) => (Reason::Passed, String::new()),
        ExitStatus::Exited(code) => (Reason::ExitCode, format!("exited with status {code}")),
        ExitStatus::Raised(text) | ExitStatus::LoadFailed(text) | ExitStatus::Fatal(text) => {
            (Reason::Exception, caveat::annotate(text).0)
        }
        ExitStatus::CompileError(text) => (Reason::SyntaxError, caveat::annotate(text).0),
        ExitStatus::OutOfMemory => (Reason::MemoryLimit, "memory ran out".to_owned()),
        ExitStatus::NoSuchFunction => {
            (Reason::NoFunction, "the program does not define the requested function".to_owned())
        }
        ExitStatus::TimeLimit => (Reason::TimeLimit, format!("stopped after {} ms of work", run.cpu.as_millis())),
        ExitStatus::OutputLimit => (Reason::OutputLimit, "wrote more than allowed".to_owned()),
        ExitStatus::Trapped(text) => (Reason::Crashed, text.clone()),
        ExitStatus::Starved => (Reason::Starved, "the machine was too busy for a verdict".to_owned()),
        ExitStatus::NeedsMemory => {
            (Reason::InsufficientMemory, "the machine had too little memory for a verdict".to_owned())
        }
        ExitStatus::Cancelled => (Reason::Cancelled, "cancelled".to_owned()),
        ExitStatus::Internal(text) => (Reason::Internal, text.clone()),
    }
}

/// Whether a run failed because of something that a native process has and the guest lacks.
pub(crate) fn is_unsupported(run: &Run) -> bool {
    match &run.status {
        ExitStatus::Raised(text) | ExitStatus::LoadFailed(text) | ExitStatus::Fatal(text) => caveat::annotate(text).1,
        _ => false,
    }
}

/// The detail for a program that exceeded its time limit over all tests.
pub(crate) fn over_all_tests(limit: Duration) -> String {
    format!("used more than {} ms over its tests", limit.as_millis())
}

/// The reason for the result of a comparison, with where the output differs.
pub(crate) fn difference(found: &Match) -> (Reason, String) {
    match found {
        Match::Equal => (Reason::Passed, String::new()),
        Match::Close => (Reason::PassedWithinTolerance, String::new()),
        Match::Lengths { written, expected } => {
            (Reason::LineCountDiffers, format!("wrote {written} lines where {expected} are expected"))
        }
        Match::Line(line) | Match::Raises(line) => (Reason::LineDiffers, format!("line {} differs", line + 1)),
    }
}
