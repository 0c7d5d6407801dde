//! `--steps`: which steps are replayed.

use evenkeel_proto::FieldError;

/// Steps from a first to a last one, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepRange {
    first: u64,
    last: u64,
    /// Whether the steps were named: each of them must be there then.
    pub(super) is_named: bool,
}

impl Default for StepRange {
    fn default() -> Self {
        Self { first: 1, last: u64::MAX, is_named: false }
    }
}

impl StepRange {
    /// Reads `A..B`, `A..`, `..B` or `A`.
    pub(super) fn parse(text: &str) -> Result<Self, FieldError> {
        let refused = || FieldError::quoted("--steps", text, "A..B, A.., ..B or A, with numbers of steps from 1");
        let number =
            |text: &str, absent: u64| if text.is_empty() { Ok(absent) } else { text.parse().map_err(|_| refused()) };
        let (first, last) = match text.split_once("..") {
            Some((first, last)) => (number(first, 1)?, number(last, u64::MAX)?),
            None => (number(text, 0)?, number(text, 0)?),
        };
        if first == 0 || last < first {
            return Err(refused());
        }
        Ok(Self { first, last, is_named: true })
    }

    /// The steps of a run that are in the range, in order. Steps that were named must all be there.
    pub(super) fn among(&self, recorded: impl IntoIterator<Item = u64>) -> Result<Vec<u64>, FieldError> {
        let recorded: Vec<u64> = recorded.into_iter().collect();
        let last = recorded.last().copied().unwrap_or_default();
        let chosen: Vec<u64> = recorded.into_iter().filter(|step| (self.first..=self.last).contains(step)).collect();
        let to = if self.last == u64::MAX { last.max(self.first) } else { self.last };
        if self.is_named && (to - self.first).checked_add(1) != Some(chosen.len() as u64) {
            let found = if to == self.first { to.to_string() } else { format!("{}..{to}", self.first) };
            let allowed = match (chosen.first(), chosen.last()) {
                (Some(first), Some(last)) => {
                    format!("steps that the run has; of these it has {}, from {first} to {last}", chosen.len())
                }
                _ => format!("steps that the run has, the last of which is {last}"),
            };
            return Err(FieldError::new("--steps", found, allowed));
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_both_ends_and_one_number_is_one_step() {
        let holds = |text: &str| StepRange::parse(text).and_then(|range| range.among(1..6));
        assert_eq!(holds("2..4"), Ok(vec![2, 3, 4]));
        assert_eq!((holds("4.."), holds("..2"), holds("3")), (Ok(vec![4, 5]), Ok(vec![1, 2]), Ok(vec![3])));
        for refused in ["", "0", "4..2", "a", "1...3", "-1"] {
            let error = StepRange::parse(refused).unwrap_err().to_string();
            assert!(error.contains("--steps"), "{refused}: {error}");
        }
    }

    #[test]
    fn steps_that_were_named_must_all_be_there() {
        let refused = |text: &str, recorded: &[u64]| {
            let range = StepRange::parse(text).unwrap();
            range.among(recorded.iter().copied()).unwrap_err().to_string()
        };
        assert!(refused("4..9", &[1, 2, 3, 4, 5]).contains("--steps is 4..9"));
        assert!(refused("4..9", &[1, 2, 3, 4, 5]).contains("of these it has 2, from 4 to 5"));
        assert!(refused("7", &[1, 2]).contains("the last of which is 2"));
        assert!(refused("7..", &[1, 2]).contains("the last of which is 2"));
        assert!(refused("1..3", &[1, 3]).contains("of these it has 2, from 1 to 3"));
        assert_eq!(StepRange::default().among([1, 3]), Ok(vec![1, 3]), "nothing was named");
    }
}
