//! A verdict on a program as plain values, with the names that a reward service has for them.

use evenkeel_sandbox::{Invalid, ProgramOutcome, ProgramVerdict};

/// Bytes of the program and of the detail in a verdict.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// Reason of programs that need something that the sandbox lacks, whatever their outcome is.
const UNSUPPORTED: &str = "unsupported";

/// Outcome, reason, reward, program, detail, why it is invalid, and the report.
pub(crate) type Values =
    (&'static str, &'static str, Option<f64>, Option<String>, String, Option<&'static str>, Report);
/// Tests that passed, that were run, and all; the index of the failing one; standard output and error; seconds of CPU
/// time.
type Report = (usize, usize, usize, Option<usize>, String, String, f64);

pub(crate) fn values(found: ProgramVerdict) -> Values {
    let is_invalid = matches!(found.outcome, ProgramOutcome::Invalid(_));
    let reason = if found.unsupported && !is_invalid { UNSUPPORTED } else { found.reason.code() };
    let report = (
        found.passed_tests,
        found.run_tests,
        found.total_tests,
        found.failing_test,
        found.stdout_excerpt,
        found.stderr_excerpt,
        found.cpu.as_secs_f64(),
    );
    let program = found.program.map(cut);
    (outcome(found.outcome), reason, found.reward, program, cut(found.detail), invalid(found.outcome), report)
}

fn outcome(outcome: ProgramOutcome) -> &'static str {
    match outcome {
        ProgramOutcome::Pass => "correct",
        ProgramOutcome::WrongAnswer => "wrong_answer",
        ProgramOutcome::RuntimeError => "runtime_error",
        ProgramOutcome::CompileError => "compile_error",
        ProgramOutcome::TimeLimit => "time_limit",
        ProgramOutcome::MemoryLimit => "memory_limit",
        ProgramOutcome::OutputLimit => "output_limit",
        ProgramOutcome::NoCode => "no_answer",
        ProgramOutcome::Invalid(_) => "invalid",
    }
}

fn invalid(outcome: ProgramOutcome) -> Option<&'static str> {
    let ProgramOutcome::Invalid(why) = outcome else { return None };
    Some(match why {
        Invalid::BadTests => "bad_tests",
        Invalid::Starved | Invalid::InsufficientMemory | Invalid::Lost => "overloaded",
        Invalid::Cancelled => "cancelled",
        Invalid::Internal => "internal",
    })
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        let end = (0..=MAX_TEXT_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}
