//! Counts of verdicts: by outcome since the start for GetStatus, by outcome and reason for Prometheus.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_proto::Label;
use evenkeel_proto::v1::{Outcome, Verdict};

/// Verdicts since the start, by outcome.
#[derive(Debug, Default)]
pub(crate) struct VerdictCounts([AtomicU64; Outcome::ALL.len()]);

impl VerdictCounts {
    /// Counts a verdict on a kind of task and the time that judging took.
    pub(crate) fn record(&self, task: &'static str, verdict: &Verdict, elapsed: Duration) {
        let outcome = verdict.outcome();
        // The values of the protobuf enum can serve as indices: a test ensures that they are consecutive from 0.
        if let Some(count) = usize::try_from(outcome as i32).ok().and_then(|index| self.0.get(index)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let reason = verdict.reason_code.clone();
        let outcome = outcome.label();
        metrics::counter!("evenkeel_verdicts_total", "task" => task, "outcome" => outcome, "reason" => reason)
            .increment(1);
        metrics::histogram!("evenkeel_verdict_seconds", "task" => task, "outcome" => outcome).record(elapsed);
    }

    /// The counts of outcomes that occurred.
    pub(crate) fn by_outcome(&self) -> BTreeMap<String, u64> {
        let counts = Outcome::ALL.iter().zip(&self.0);
        let counts = counts.map(|(outcome, count)| (outcome.label().to_owned(), count.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_under_their_names() {
        let counts = VerdictCounts::default();
        let correct = Verdict::judged("a", Outcome::Correct, "equal_integer", 1.0);
        counts.record("math", &correct, Duration::ZERO);
        counts.record("math", &correct, Duration::ZERO);
        counts.record("code", &Verdict::judged("b", Outcome::NoAnswer, "empty_box", 0.0), Duration::ZERO);
        assert_eq!(counts.by_outcome(), BTreeMap::from([("correct".to_owned(), 2), ("no_answer".to_owned(), 1)]));
    }
}
