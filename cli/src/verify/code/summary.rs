//! Output: a row for each program and a summary.

use std::fmt;

use evenkeel_proto::Label;
use evenkeel_proto::v1::{Outcome, Verdict};
use serde::Serialize;
use serde_json::Value;

use super::rows::Program;
use crate::verify::counts::{Agreement, OutcomeCounts};

/// A verdict as printed.
#[derive(Serialize)]
pub(super) struct VerdictRow<'a> {
    question_id: &'a str,
    program: &'a Value,
    /// pass, wrong_answer, runtime_error, compile_error, time_limit, memory_limit, output_limit, unsupported, no_code,
    /// or why there is no verdict.
    outcome: &'a str,
    /// What exactly led to it.
    reason: &'a str,
    passed: bool,
    failing_test: Option<u32>,
    passed_tests: u32,
    total_tests: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    lcb_results: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lcb_error: Option<i32>,
    cpu_ms: f64,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    erratum: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    stdout: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    stderr: &'a str,
}

/// The name of the outcome in `evenkeel-sandbox`.
fn outcome(verdict: &Verdict) -> &'static str {
    match verdict.outcome() {
        // Counted separately, whatever its outcome is.
        _ if verdict.reason_code == "unsupported" => "unsupported",
        Outcome::Correct => "pass",
        Outcome::NoAnswer => "no_code",
        Outcome::Invalid => verdict.invalid_reason().label(),
        outcome => outcome.label(),
    }
}

/// The grader's results as it writes them: true, false, or a negative code.
fn results(results: &[i32]) -> Option<Vec<Value>> {
    let one = |result: &i32| match result {
        0 => Value::Bool(false),
        1 => Value::Bool(true),
        code => (*code).into(),
    };
    (!results.is_empty()).then(|| results.iter().map(one).collect())
}

pub(super) fn verdict_row<'a>(program: &'a Program, verdict: &'a Verdict) -> VerdictRow<'a> {
    let report = verdict.code.as_ref();
    let text = |of: fn(&evenkeel_proto::v1::CodeReport) -> &String| report.map_or("", |report| of(report).as_str());
    VerdictRow {
        question_id: &program.question_id,
        program: &program.name,
        outcome: outcome(verdict),
        reason: &verdict.reason_code,
        passed: verdict.outcome() == Outcome::Correct,
        failing_test: report.and_then(|report| report.failing_test),
        passed_tests: report.map_or(0, |report| report.passed_tests),
        total_tests: report.map_or(0, |report| report.total_tests),
        lcb_results: report.and_then(|report| results(&report.live_code_bench_results)),
        lcb_error: report.and_then(|report| report.live_code_bench_error),
        cpu_ms: report.map_or(0.0, |report| report.cpu_us as f64 / 1000.0),
        detail: &verdict.detail,
        erratum: text(|report| &report.erratum),
        stdout: text(|report| &report.stdout_excerpt),
        stderr: text(|report| &report.stderr_excerpt),
    }
}

/// The summary of all verdicts.
#[derive(Default)]
pub(super) struct Summary {
    outcomes: OutcomeCounts,
    agreement: Agreement,
    pub(super) invalid_rows: usize,
    /// Time from the first row to the last verdict.
    pub(super) seconds: f64,
    tests: u64,
    /// Programs with a list of the grader, in the row and in the verdict.
    graded: usize,
    as_graded: usize,
}

impl Summary {
    pub(super) fn record(&mut self, program: &Program, verdict: &Verdict) {
        self.outcomes.record(outcome(verdict));
        let report = verdict.code.as_ref();
        self.tests += report.map_or(0, |report| u64::from(report.run_tests));
        self.agreement.record(program.passed, verdict.outcome() == Outcome::Correct);
        // There is a list in LiveCodeBench mode only.
        let found = report.map(|report| &report.live_code_bench_results).filter(|results| !results.is_empty());
        if let (Some(expected), Some(found)) = (&program.results, found) {
            self.graded += 1;
            self.as_graded += usize::from(expected == found);
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let programs = self.outcomes.total();
        write!(f, "{programs} programs, {} tests{}", self.tests, self.outcomes)?;
        if self.seconds > 0.0 {
            write!(f, ", {:.0} programs per second", programs as f64 / self.seconds)?;
        }
        self.agreement.write(f, "passed")?;
        if self.graded > 0 {
            let share = 100.0 * self.as_graded as f64 / self.graded as f64;
            write!(
                f,
                "; {} of {} lists as LiveCodeBench's grader has them ({share:.2} %)",
                self.as_graded, self.graded
            )?;
        }
        if self.invalid_rows > 0 {
            write!(f, "; {} rows could not be read", self.invalid_rows)?;
        }
        Ok(())
    }
}
