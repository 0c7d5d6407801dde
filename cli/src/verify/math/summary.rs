//! Output: a row for each verdict and a summary.

use std::collections::BTreeMap;
use std::fmt;

use evenkeel_proto::Label;
use evenkeel_proto::v1::{InvalidReason, Outcome, Verdict};
use evenkeel_run::Undecided;
use serde::Serialize;
use serde_json::Value;

use super::rows::AnswerRow;
use crate::verify::counts::{Agreement, OutcomeCounts};

/// A verdict as printed.
#[derive(Serialize)]
pub(super) struct VerdictRow<'a> {
    id: &'a Value,
    /// equal, not_equal, undecided, no_answer, bad_gold, or why there is no verdict.
    outcome: &'static str,
    reason: &'a str,
    extracted: Option<&'a str>,
    canonical: Option<&'a str>,
    /// Whether an answer copied from the task would have been recognised: the row has a prompt.
    copies_checked: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
}

/// The name of the outcome in `evenkeel-math`.
fn outcome(verdict: &Verdict) -> &'static str {
    match (verdict.outcome(), verdict.invalid_reason()) {
        (Outcome::Correct, _) => "equal",
        (Outcome::Incorrect, _) => "not_equal",
        (Outcome::Invalid, InvalidReason::BadGold) => "bad_gold",
        (Outcome::Invalid, reason) => reason.label(),
        (outcome, _) => outcome.label(),
    }
}

pub(super) fn verdict_row<'a>(row: &'a AnswerRow, verdict: &'a Verdict) -> VerdictRow<'a> {
    VerdictRow {
        id: &row.id,
        outcome: outcome(verdict),
        reason: &verdict.reason_code,
        extracted: verdict.extracted.as_deref(),
        canonical: verdict.canonical.as_deref(),
        copies_checked: verdict.copies_checked,
        detail: &verdict.detail,
    }
}

/// The summary of all verdicts.
#[derive(Default)]
pub(super) struct Summary {
    outcomes: OutcomeCounts,
    agreement: Agreement,
    pub(super) invalid_rows: usize,
    /// Undecided verdicts by their reasons.
    undecided: BTreeMap<String, u64>,
    /// Verdicts `copied`, and those for which the rule could be applied.
    copied: usize,
    copies_checked: usize,
    pub(super) seconds: f64,
}

impl Summary {
    pub(super) fn record(&mut self, row: &AnswerRow, verdict: &Verdict) {
        self.outcomes.record(outcome(verdict));
        if verdict.outcome() == Outcome::Undecided {
            *self.undecided.entry(verdict.reason_code.clone()).or_default() += 1;
        }
        self.copied += usize::from(verdict.reason_code == "copied");
        self.copies_checked += usize::from(verdict.copies_checked);
        self.agreement.record(row.expected, verdict.outcome() == Outcome::Correct);
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let checks = self.outcomes.total();
        write!(f, "{checks} checks{}", self.outcomes)?;
        if self.seconds > 0.0 {
            write!(f, ", {:.0} checks per second", checks as f64 / self.seconds)?;
        }
        if let Some(undecided) = Undecided::counted(checks as u64, self.undecided.clone()) {
            write!(f, "; undecided: {undecided}")?;
            if undecided.is_notable() {
                f.write_str(", a large share: see docs/math.md, \"Undecided\"")?;
            }
        }
        self.agreement.write(f, "equal")?;
        if self.copies_checked > 0 {
            write!(f, "; {} copied from the prompt, of {} with one", self.copied, self.copies_checked)?;
        }
        if self.invalid_rows > 0 {
            write!(f, "; {} rows could not be read", self.invalid_rows)?;
        }
        Ok(())
    }
}
