//! How many of each outcome, and how many as the rows have it: what both commands sum up.

use std::fmt;

/// Verdicts by the name of their outcome.
#[derive(Default)]
pub(super) struct Outcomes(Vec<(&'static str, usize)>);

impl Outcomes {
    pub(super) fn count(&mut self, name: &'static str) {
        match self.0.iter_mut().find(|(other, _)| *other == name) {
            Some((_, count)) => *count += 1,
            None => self.0.push((name, 1)),
        }
    }

    pub(super) fn total(&self) -> usize {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

impl fmt::Display for Outcomes {
    /// `, 3 equal, 1 no_answer`: the most frequent first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut outcomes = self.0.clone();
        outcomes.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        outcomes.iter().try_for_each(|(name, count)| write!(f, ", {count} {name}"))
    }
}

/// Verdicts beside what the rows say should come out.
#[derive(Default)]
pub(super) struct Agreement {
    expected: usize,
    found: usize,
    wrongly_right: usize,
}

impl Agreement {
    /// Whether it was found right; nothing is counted where the row does not say what it expects.
    pub(super) fn count(&mut self, expected: Option<bool>, right: bool) {
        if let Some(expected) = expected {
            self.expected += 1;
            self.found += usize::from(right == expected);
            self.wrongly_right += usize::from(right && !expected);
        }
    }

    /// `; 2 of 3 as expected, 0 wrongly equal`, where any row says so; `right` is the word for what is right.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, right: &str) -> fmt::Result {
        if self.expected == 0 {
            return Ok(());
        }
        write!(f, "; {} of {} as expected, {} wrongly {right}", self.found, self.expected, self.wrongly_right)
    }
}
