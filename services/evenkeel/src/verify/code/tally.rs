//! What came out: a row for each program, and a line for all of them.

use std::fmt;

use evenkeel_proto::Label;
use evenkeel_proto::v1::{Outcome, Verdict};
use serde::Serialize;
use serde_json::Value;

use super::rows::Program;
use crate::verify::counts::{Agreement, Outcomes};

/// A verdict as it is printed.
#[derive(Serialize)]
pub(super) struct VerdictRow<'a> {
    question_id: &'a str,
    program: &'a Value,
    /// pass, wrong_answer, runtime_error, compile_error, time_limit, memory_limit, output_limit, unsupported, no_code; or why there is none.
    outcome: &'a str,
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

/// The words of `evenkeel-sandbox` for what the protocol calls by reward.
fn outcome(verdict: &Verdict) -> &'static str {
    match verdict.outcome() {
        // Counted on its own, whatever it is worth.
        _ if verdict.reason_code == "unsupported" => "unsupported",
        Outcome::Correct => "pass",
        Outcome::NoAnswer => "no_code",
        Outcome::Invalid => verdict.invalid_reason().label(),
        outcome => outcome.label(),
    }
}

/// The grader's list with its true and false; its codes are negative.
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

/// How many of each outcome, and how many as the rows have it.
#[derive(Default)]
pub(super) struct Tally {
    outcomes: Outcomes,
    agreement: Agreement,
    /// Rows that were no rows.
    pub(super) unreadable: usize,
    /// From the first row to the last verdict.
    pub(super) seconds: f64,
    tests: u64,
    graded: usize,
    as_graded: usize,
}

impl Tally {
    pub(super) fn count(&mut self, program: &Program, verdict: &Verdict) {
        self.outcomes.count(outcome(verdict));
        let report = verdict.code.as_ref();
        self.tests += report.map_or(0, |report| u64::from(report.run_tests));
        self.agreement.count(program.passed, verdict.outcome() == Outcome::Correct);
        // Only the grader's mode has a list.
        let found = report.map(|report| &report.live_code_bench_results).filter(|results| !results.is_empty());
        if let (Some(expected), Some(found)) = (&program.results, found) {
            self.graded += 1;
            self.as_graded += usize::from(expected == found);
        }
    }
}

impl fmt::Display for Tally {
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
        if self.unreadable > 0 {
            write!(f, "; {} rows could not be read", self.unreadable)?;
        }
        Ok(())
    }
}
