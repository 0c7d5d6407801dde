//! Counts for the summaries of both commands: verdicts by outcome, and agreement with the labels of the rows.

use std::fmt;

/// Number of verdicts by outcome.
#[derive(Default)]
pub(super) struct OutcomeCounts(Vec<(&'static str, usize)>);

impl OutcomeCounts {
    pub(super) fn record(&mut self, name: &'static str) {
        match self.0.iter_mut().find(|(other, _)| *other == name) {
            Some((_, count)) => *count += 1,
            None => self.0.push((name, 1)),
        }
    }

    pub(super) fn total(&self) -> usize {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

impl fmt::Display for OutcomeCounts {
    /// `, 3 equal, 1 no_answer`, the most frequent first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut outcomes = self.0.clone();
        outcomes.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        outcomes.iter().try_for_each(|(name, count)| write!(f, ", {count} {name}"))
    }
}

/// Agreement of the verdicts with the expectations in the rows.
#[derive(Default)]
pub(super) struct Agreement {
    /// Rows with an expectation.
    labelled: usize,
    as_expected: usize,
    false_positives: usize,
}

impl Agreement {
    /// Counts a verdict, if the row has an expectation.
    pub(super) fn record(&mut self, expected: Option<bool>, right: bool) {
        if let Some(expected) = expected {
            self.labelled += 1;
            self.as_expected += usize::from(right == expected);
            self.false_positives += usize::from(right && !expected);
        }
    }

    /// `; 2 of 3 as expected, 0 wrongly equal`, if any row has an expectation. `right` describes a positive verdict.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, right: &str) -> fmt::Result {
        if self.labelled == 0 {
            return Ok(());
        }
        write!(f, "; {} of {} as expected, {} wrongly {right}", self.as_expected, self.labelled, self.false_positives)
    }
}
