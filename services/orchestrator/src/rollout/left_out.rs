//! Warnings about samples that are left out: at the first one of a kind, the tenth, the hundredth, and so on.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Most kinds that are told apart.
const MAX_KINDS: usize = 100;
/// Longest name of a kind, in characters.
const MAX_NAME: usize = 100;

/// What is missing of a sample that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LeftOut {
    NoVerdict,
    NotGenerated,
}

/// Counts the samples of a run that are left out, by what is missing and the beginning of the reason.
#[derive(Debug, Default)]
pub(super) struct LeftOutWarnings(Mutex<BTreeMap<(LeftOut, String), u64>>);

impl LeftOutWarnings {
    /// Counts a sample, and warns where its number is a power of ten.
    pub(super) fn add(&self, what: LeftOut, reason: &str) {
        let Some(samples) = self.count(what, reason) else { return };
        match what {
            LeftOut::NoVerdict => tracing::warn!(reason, samples, "no verdict, the sample is left out"),
            LeftOut::NotGenerated => {
                tracing::warn!(reason, samples, "the sample cannot be generated and is left out");
            }
        }
    }

    /// The number of the sample within its kind, where that is a power of ten.
    fn count(&self, what: LeftOut, reason: &str) -> Option<u64> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (what, kind(reason));
        if counts.len() >= MAX_KINDS && !counts.contains_key(&key) {
            key.1.clear();
        }
        let count = counts.entry(key).or_default();
        *count += 1;
        (10_u64.pow(count.ilog10()) == *count).then_some(*count)
    }
}

/// What reasons of a kind begin with: a reason code and the type of an exception.
fn kind(reason: &str) -> String {
    reason.split(':').take(2).collect::<Vec<_>>().join(":").chars().take(MAX_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_kind_is_told_and_then_powers_of_ten() {
        let warnings = LeftOutWarnings::default();
        let told = |reason: &dyn Fn(u64) -> String| {
            (1..=1000).filter_map(|number| warnings.count(LeftOut::NoVerdict, &reason(number))).collect::<Vec<_>>()
        };
        assert_eq!(told(&|number| format!("reward_exception: KeyError: '{number}'")), [1, 10, 100, 1000]);
        assert_eq!(told(&|_| "reward_exception: ValueError: x".to_owned()), [1, 10, 100, 1000], "another kind");
        assert_eq!(warnings.count(LeftOut::NotGenerated, "reward_exception: ValueError: x"), Some(1));
        let endless = told(&|number| format!("crashed: {number}"));
        assert!(endless.len() < MAX_KINDS + 4, "kinds are bounded: {}", endless.len());
    }
}
