//! Converts the verdicts of the sandbox to those of the protocol.

use evenkeel_proto::v1::{CodeReport, InvalidReason, Outcome, Verdict};
use evenkeel_sandbox::rows::Erratum;
use evenkeel_sandbox::{Invalid, ProgramOutcome, ProgramVerdict};

use crate::settings::UnsupportedSetting;

/// Reason code for programs that need something that the sandbox lacks, whatever their outcome is.
const UNSUPPORTED: &str = "unsupported";

/// The verdict of the protocol, with the item's id.
pub(super) fn verdict(
    id: String,
    found: &ProgramVerdict,
    erratum: Option<Erratum>,
    unsupported: UnsupportedSetting,
    max_text_bytes: usize,
) -> Verdict {
    let detail = super::super::cut(found.detail.as_str(), max_text_bytes);
    if found.unsupported {
        metrics::counter!("evenkeel_unsupported_programs_total").increment(1);
    }
    let judged = match (found.outcome, found.reward) {
        (_, _) if found.unsupported && unsupported == UnsupportedSetting::Invalid => Verdict {
            detail,
            reason_code: UNSUPPORTED.to_owned(),
            ..Verdict::invalid(id, InvalidReason::Unimplemented, "")
        },
        (outcome, Some(reward)) if found.unsupported => {
            Verdict { detail, ..Verdict::judged(id, self::outcome(outcome), UNSUPPORTED, reward) }
        }
        (ProgramOutcome::Invalid(reason), _) => {
            Verdict { detail, reason_code: found.reason.code().to_owned(), ..Verdict::invalid(id, invalid(reason), "") }
        }
        (outcome, Some(reward)) => {
            Verdict { detail, ..Verdict::judged(id, self::outcome(outcome), found.reason.code(), reward) }
        }
        (_, None) => Verdict::invalid(id, InvalidReason::Internal, "a verdict without a reward"),
    };
    let extracted = found.program.as_ref().map(|program| super::super::cut(program.as_str(), max_text_bytes));
    Verdict { extracted, code: Some(report(found, erratum)), ..judged }
}

fn report(found: &ProgramVerdict, erratum: Option<Erratum>) -> CodeReport {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let grader = found.grader.clone().unwrap_or_default();
    CodeReport {
        passed_tests: count(found.passed_tests),
        run_tests: count(found.run_tests),
        total_tests: count(found.total_tests),
        failing_test: found.failing_test.map(count),
        stdout_excerpt: found.stdout_excerpt.clone(),
        stderr_excerpt: found.stderr_excerpt.clone(),
        cpu_us: u64::try_from(found.cpu.as_micros()).unwrap_or(u64::MAX),
        peak_memory_bytes: found.peak_memory_bytes,
        live_code_bench_results: grader.results,
        live_code_bench_error: grader.error,
        erratum: erratum.map(|erratum| erratum.text().to_owned()).unwrap_or_default(),
    }
}

fn outcome(outcome: ProgramOutcome) -> Outcome {
    match outcome {
        ProgramOutcome::Pass => Outcome::Correct,
        ProgramOutcome::WrongAnswer => Outcome::WrongAnswer,
        ProgramOutcome::RuntimeError => Outcome::RuntimeError,
        ProgramOutcome::CompileError => Outcome::CompileError,
        ProgramOutcome::TimeLimit => Outcome::TimeLimit,
        ProgramOutcome::MemoryLimit => Outcome::MemoryLimit,
        ProgramOutcome::OutputLimit => Outcome::OutputLimit,
        ProgramOutcome::NoCode => Outcome::NoAnswer,
        ProgramOutcome::Invalid(_) => Outcome::Invalid,
    }
}

fn invalid(reason: Invalid) -> InvalidReason {
    match reason {
        Invalid::BadTests => InvalidReason::BadTests,
        // The machine is too busy or too small for this program: it may be judged elsewhere or later.
        Invalid::Starved | Invalid::InsufficientMemory | Invalid::Lost => InvalidReason::Overloaded,
        Invalid::Cancelled => InvalidReason::Cancelled,
        Invalid::Internal => InvalidReason::Internal,
    }
}
