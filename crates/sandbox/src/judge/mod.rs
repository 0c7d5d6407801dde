//! Turns what a program did into outcomes.

mod caveat;
mod grader;
mod strict;

use std::time::Duration;

use crate::compare::text::Match;
use crate::sandbox::{ExitStatus, Run};
use crate::task::{Mode, ProgramSubmission, ProgramTask};
use crate::verdict::{GraderResult, Invalid, ProgramOutcome, ProgramVerdict};

pub(crate) use grader::judge as judge_by_grader;
pub(crate) use strict::{Report, judge as judge_strictly};

/// Extracts the program of a task. The error is the verdict if there is nothing to run.
pub(crate) fn program(task: &ProgramTask) -> Result<String, Box<ProgramVerdict>> {
    let total = task.tests.len();
    let not_run = |outcome, detail: String, results: &[i32], error| {
        let mut verdict = ProgramVerdict::without_run(outcome, total, detail);
        if task.mode == Mode::LiveCodeBench {
            verdict.grader = Some(GraderResult { results: results.to_vec(), error: Some(error) });
        }
        Err(Box::new(verdict))
    };
    if let Some(defect) = task.tests.defect() {
        return not_run(ProgramOutcome::Invalid(Invalid::BadTests), defect.to_string(), &[-4], -4);
    }
    let program = match &task.submission {
        ProgramSubmission::Program(program) => Some(program.clone()),
        ProgramSubmission::Completion(completion) => crate::extract::extract(completion, task.extraction()),
    };
    let Some(program) = program
        .filter(|program| !program.trim().is_empty() || matches!(task.submission, ProgramSubmission::Program(_)))
    else {
        return not_run(ProgramOutcome::NoCode, "the completion holds no program".to_owned(), &[-4], -4);
    };
    if program.len() as u64 > task.limits.source_bytes {
        let detail = format!("the program has {} bytes, of {} allowed", program.len(), task.limits.source_bytes);
        return not_run(ProgramOutcome::CompileError, detail, &[-4], -4);
    }
    Ok(program)
}

/// The outcome of a run as far as the exit status determines it, with a detail. `Pass` means that the output is still to be compared.
pub(crate) fn outcome_of(run: &Run) -> (ProgramOutcome, String) {
    match &run.status {
        ExitStatus::Returned(_) => (ProgramOutcome::Pass, String::new()),
        ExitStatus::Exited(0) => (ProgramOutcome::Pass, String::new()),
        ExitStatus::Exited(code) => (ProgramOutcome::RuntimeError, format!("exited with status {code}")),
        ExitStatus::Raised(text) | ExitStatus::LoadFailed(text) | ExitStatus::Fatal(text) => {
            (ProgramOutcome::RuntimeError, caveat::annotate(text).0)
        }
        ExitStatus::CompileError(text) => (ProgramOutcome::CompileError, caveat::annotate(text).0),
        ExitStatus::OutOfMemory => (ProgramOutcome::MemoryLimit, "memory ran out".to_owned()),
        ExitStatus::NoSuchFunction => {
            (ProgramOutcome::RuntimeError, "the program does not define the requested function".to_owned())
        }
        ExitStatus::TimeLimit => {
            (ProgramOutcome::TimeLimit, format!("stopped after {} ms of work", run.cpu.as_millis()))
        }
        ExitStatus::OutputLimit => (ProgramOutcome::OutputLimit, "wrote more than allowed".to_owned()),
        ExitStatus::Trapped(text) => (ProgramOutcome::RuntimeError, text.clone()),
        ExitStatus::Starved => {
            (ProgramOutcome::Invalid(Invalid::Starved), "the machine was too busy for a verdict".to_owned())
        }
        ExitStatus::NeedsMemory => (
            ProgramOutcome::Invalid(Invalid::InsufficientMemory),
            "the machine had too little memory for a verdict".to_owned(),
        ),
        ExitStatus::Cancelled => (ProgramOutcome::Invalid(Invalid::Cancelled), "cancelled".to_owned()),
        ExitStatus::Internal(text) => (ProgramOutcome::Invalid(Invalid::Internal), text.clone()),
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

/// Describes where an output differs.
pub(crate) fn difference(found: &Match) -> String {
    match found {
        Match::Equal => String::new(),
        Match::Lengths { written, expected } => format!("wrote {written} lines where {expected} are expected"),
        Match::Line(line) | Match::Raises(line) => format!("line {} differs", line + 1),
    }
}
