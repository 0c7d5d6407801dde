//! How many verdicts of a run are undecided, and why: answers that were not understood are not rewarded.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::metric::table;
use crate::metrics::Curves;

/// The share from which a run says so.
pub const NOTABLE: f64 = 0.05;
/// Reasons that are named.
const MAX_REASONS: usize = 3;

/// Undecided verdicts of the samples of training.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undecided {
    /// Samples with a verdict.
    pub verdicts: u64,
    /// Samples whose verdict is undecided.
    pub undecided: u64,
    /// The reason codes of these with how many have each, the commonest first.
    pub reasons: Vec<(String, u64)>,
}

impl Undecided {
    /// The undecided verdicts of these steps; `None` where every verdict is decided.
    pub fn of(steps: &Curves) -> Option<Self> {
        let under = |prefix: &str| -> Vec<(String, u64)> {
            let names = steps.names().filter_map(|name| Some((name, name.strip_prefix(prefix)?)));
            names.map(|(name, rest)| (rest.to_owned(), steps.sum(name) as u64)).collect()
        };
        let prefix = |name: &str| name.trim_end_matches('x').to_owned();
        let outcomes = under(&prefix(table::OUTCOME.of([&"x"]).as_str()));
        let reasons = under(&prefix(table::UNDECIDED.of([&"x"]).as_str()));
        Self::counted(outcomes.iter().map(|(_, count)| count).sum(), reasons)
    }

    /// Counts of reasons among all verdicts; `None` without any.
    pub fn counted(verdicts: u64, reasons: impl IntoIterator<Item = (String, u64)>) -> Option<Self> {
        let mut reasons: Vec<_> = reasons.into_iter().filter(|(_, count)| *count > 0).collect();
        reasons.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let undecided = reasons.iter().map(|(_, count)| count).sum();
        (undecided > 0).then_some(Self { verdicts, undecided, reasons })
    }

    /// The undecided share of all verdicts.
    pub fn share(&self) -> f64 {
        self.undecided as f64 / self.verdicts.max(1) as f64
    }

    /// Whether the share is so large that it may bias what is trained on.
    pub fn is_notable(&self) -> bool {
        self.share() > NOTABLE
    }
}

impl fmt::Display for Undecided {
    /// `6.0 % of 200 (not_understood 10, out_of_fuel 2)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons: Vec<String> =
            self.reasons.iter().take(MAX_REASONS).map(|(reason, count)| format!("{reason} {count}")).collect();
        let share = 100.0 * self.share();
        write!(f, "{share:.1} % of {} ({})", self.verdicts, reasons.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::StepKind;

    use super::*;
    use crate::MetricsLine;

    #[test]
    fn the_undecided_verdicts_of_all_steps_are_counted_by_their_reasons() {
        let mut line = MetricsLine::new(StepKind::Train, 1, 1);
        line.set(table::OUTCOME.of([&"correct"]), 90.0);
        line.set(table::OUTCOME.of([&"undecided"]), 6.0);
        line.set(table::UNDECIDED.of([&"out_of_fuel"]), 1.0);
        line.set(table::UNDECIDED.of([&"not_understood"]), 5.0);
        let found = Undecided::of(&Curves::of(&[line.clone(), MetricsLine { step: 2, ..line }])).unwrap();
        assert_eq!(found.to_string(), "6.2 % of 192 (not_understood 10, out_of_fuel 2)");
        assert!(found.is_notable());
        assert_eq!(Undecided::of(&Curves::default()), None);
    }
}
