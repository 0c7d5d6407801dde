//! From what the sandbox saw to what it means.

mod caveat;
mod grader;
mod strict;

use std::time::Duration;

use crate::compare::text::Match;
use crate::sandbox::{Ending, Run};
use crate::task::{Answer, Mode, Task};
use crate::verdict::{GraderResult, Invalid, Outcome, Verdict};

pub(crate) use grader::judge as judge_by_grader;
pub(crate) use strict::{Report, judge as judge_strictly};

/// Finds the program of a task, or the verdict where none has to be run.
pub(crate) fn program(task: &Task) -> Result<String, Box<Verdict>> {
    let total = task.tests.len();
    let without = |outcome, detail: String, results: &[i32], error| {
        let mut verdict = Verdict::without_run(outcome, total, detail);
        if task.mode == Mode::LiveCodeBench {
            verdict.grader = Some(GraderResult { results: results.to_vec(), error: Some(error) });
        }
        Err(Box::new(verdict))
    };
    if let Some(defect) = task.tests.defect() {
        return without(Outcome::Invalid(Invalid::BadTests), defect.to_string(), &[-4], -4);
    }
    let program = match &task.answer {
        Answer::Program(program) => Some(program.clone()),
        Answer::Completion(completion) => crate::extract::extract(completion, task.extraction()),
    };
    let Some(program) =
        program.filter(|program| !program.trim().is_empty() || matches!(task.answer, Answer::Program(_)))
    else {
        return without(Outcome::NoCode, "the completion holds no program".to_owned(), &[-4], -4);
    };
    if program.len() as u64 > task.limits.source_bytes {
        let detail = format!("the program has {} bytes, of {} allowed", program.len(), task.limits.source_bytes);
        return without(Outcome::CompileError, detail, &[-4], -4);
    }
    Ok(program)
}

/// What an ending means that is not `Returned`, and what there is to say about it.
pub(crate) fn meaning(run: &Run) -> (Outcome, String) {
    match &run.ending {
        Ending::Returned(_) => (Outcome::Pass, String::new()),
        Ending::Exited(0) => (Outcome::Pass, String::new()),
        Ending::Exited(status) => (Outcome::RuntimeError, format!("exited with status {status}")),
        Ending::Raised(text) | Ending::NotLoaded(text) | Ending::Died(text) => {
            (Outcome::RuntimeError, caveat::annotate(text).0)
        }
        Ending::NotAProgram(text) => (Outcome::CompileError, caveat::annotate(text).0),
        Ending::OutOfMemory => (Outcome::MemoryLimit, "memory ran out".to_owned()),
        Ending::NoSuchFunction => {
            (Outcome::RuntimeError, "the program has no function of the name that was asked for".to_owned())
        }
        Ending::TimeLimit => (Outcome::TimeLimit, format!("stopped after {} ms of work", run.cpu.as_millis())),
        Ending::OutputLimit => (Outcome::OutputLimit, "wrote more than allowed".to_owned()),
        Ending::Trapped(text) => (Outcome::RuntimeError, text.clone()),
        Ending::Starved => (Outcome::Invalid(Invalid::Starved), "the machine was too busy for a verdict".to_owned()),
        Ending::Crowded => {
            (Outcome::Invalid(Invalid::Crowded), "the machine had too little memory for a verdict".to_owned())
        }
        Ending::Cancelled => (Outcome::Invalid(Invalid::Cancelled), "cancelled".to_owned()),
        Ending::Broken(text) => (Outcome::Invalid(Invalid::Internal), text.clone()),
    }
}

/// Whether a run ended with what the guest lacks and a native process has.
pub(crate) fn is_unsupported(run: &Run) -> bool {
    match &run.ending {
        Ending::Raised(text) | Ending::NotLoaded(text) | Ending::Died(text) => caveat::annotate(text).1,
        _ => false,
    }
}

/// What there is to say where a program used more than it may over all its tests.
pub(crate) fn over_all_tests(most: Duration) -> String {
    format!("used more than {} ms over its tests", most.as_millis())
}

/// Says where an output differs.
pub(crate) fn difference(found: &Match) -> String {
    match found {
        Match::Equal => String::new(),
        Match::Lengths { written, expected } => format!("wrote {written} lines where {expected} are expected"),
        Match::Line(line) | Match::Raises(line) => format!("line {} differs", line + 1),
    }
}
