//! What came out: a row for each verdict, and a line for all of them.

use std::fmt;

use evenkeel_proto::Label;
use evenkeel_proto::v1::{InvalidReason, Outcome, Verdict};
use serde::Serialize;
use serde_json::Value;

use super::rows::Row;

/// A verdict as it is printed.
#[derive(Serialize)]
pub(super) struct VerdictRow<'a> {
    id: &'a Value,
    /// equal, not_equal, undecided, no_answer, bad_gold; or why there is no verdict.
    outcome: &'static str,
    reason: &'a str,
    extracted: Option<&'a str>,
    canonical: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
}

/// The words of `evenkeel-math` for what the protocol calls by reward.
fn outcome(verdict: &Verdict) -> &'static str {
    match (verdict.outcome(), verdict.invalid_reason()) {
        (Outcome::Correct, _) => "equal",
        (Outcome::Incorrect, _) => "not_equal",
        (Outcome::Invalid, InvalidReason::BadGold) => "bad_gold",
        (Outcome::Invalid, reason) => reason.label(),
        (outcome, _) => outcome.label(),
    }
}

pub(super) fn verdict_row<'a>(row: &'a Row, verdict: &'a Verdict) -> VerdictRow<'a> {
    VerdictRow {
        id: &row.id,
        outcome: outcome(verdict),
        reason: &verdict.reason_code,
        extracted: verdict.extracted.as_deref(),
        canonical: verdict.canonical.as_deref(),
        detail: &verdict.detail,
    }
}

/// How many of each outcome.
#[derive(Default)]
pub(super) struct Tally {
    outcomes: Vec<(&'static str, usize)>,
    /// Rows that were no rows.
    pub(super) unreadable: usize,
    /// Spent judging.
    pub(super) seconds: f64,
    expected: usize,
    as_expected: usize,
    wrongly_equal: usize,
}

impl Tally {
    pub(super) fn count(&mut self, row: &Row, verdict: &Verdict) {
        let name = outcome(verdict);
        match self.outcomes.iter_mut().find(|(other, _)| *other == name) {
            Some((_, count)) => *count += 1,
            None => self.outcomes.push((name, 1)),
        }
        if let Some(expected) = row.expected {
            let equal = verdict.outcome() == Outcome::Correct;
            self.expected += 1;
            self.as_expected += usize::from(equal == expected);
            self.wrongly_equal += usize::from(equal && !expected);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let checks: usize = self.outcomes.iter().map(|(_, count)| count).sum();
        write!(f, "{checks} checks")?;
        let mut outcomes = self.outcomes.clone();
        outcomes.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        for (name, count) in outcomes {
            write!(f, ", {count} {name}")?;
        }
        if self.seconds > 0.0 {
            write!(f, ", {:.0} checks per second", checks as f64 / self.seconds)?;
        }
        if self.expected > 0 {
            let (expected, found) = (self.expected, self.as_expected);
            write!(f, "; {found} of {expected} as expected, {} wrongly equal", self.wrongly_equal)?;
        }
        if self.unreadable > 0 {
            write!(f, "; {} rows could not be read", self.unreadable)?;
        }
        Ok(())
    }
}
