//! The text that proofs score: what clients asked and were answered, each under a version once. An engine's noise in
//! the same tokens with the same weights is the same noise, and would count twice.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// Sequences that are kept for the next proof.
const KEPT: usize = 256;
/// Tokens of each that are kept.
const TOKENS: usize = 4096;
/// Uses that are remembered. Beyond them a version may meet the same text again, which then counts as new.
const USES: usize = 100_000;

/// Text since the last proof.
#[derive(Debug)]
pub(crate) struct FreshText {
    /// Ids are below it. What a client asks with others is refused, and proves nothing.
    vocabulary: u32,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Each with a digest of its prompt.
    sequences: VecDeque<(u64, Vec<u32>)>,
    /// Versions with the prompts that they were proven by.
    uses: BTreeSet<(u64, u64)>,
}

impl FreshText {
    pub(super) fn new(vocabulary: u32) -> Self {
        Self { vocabulary, kept: Mutex::default() }
    }

    /// Adds a prompt with what followed it, if anything.
    pub(crate) fn add(&self, prompt: &[u32], response: &[u32]) {
        if prompt.iter().chain(response).any(|id| *id >= self.vocabulary) {
            return;
        }
        let mut hasher = DefaultHasher::new();
        prompt.hash(&mut hasher);
        let tokens = prompt.iter().chain(response).copied().take(TOKENS).collect();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.sequences.push_back((hasher.finish(), tokens));
        if kept.sequences.len() > KEPT {
            kept.sequences.pop_front();
        }
    }

    /// Takes the text that this version was not proven by. Without any there is an empty sequence, so that no earlier
    /// text is used again: random tokens are.
    pub(super) fn take(&self, version: u64) -> Vec<Vec<u32>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Kept { sequences, uses } = &mut *kept;
        // Of samples of one prompt the last is the longest text.
        let mut fresh: Vec<_> = std::mem::take(sequences).into_iter().rev().collect();
        fresh.retain(|(prompt, _)| uses.insert((version, *prompt)));
        while uses.len() > USES {
            uses.pop_first();
        }
        let mut fresh: Vec<_> = fresh.into_iter().map(|(_, tokens)| tokens).collect();
        if fresh.is_empty() {
            fresh.push(Vec::new());
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_meets_each_prompt_once() {
        let text = FreshText::new(1000);
        let asked = || {
            text.add(&[1, 2], &[]);
            text.add(&[1, 2], &[3]);
            text.add(&[1, 4], &[5]);
        };
        asked();
        assert_eq!(text.take(7), [vec![1, 4, 5], vec![1, 2, 3]]);
        asked();
        assert_eq!(text.take(7), [Vec::<u32>::new()]);
        asked();
        assert_eq!(text.take(8).len(), 2, "another version");
        assert_eq!(text.take(9), [Vec::<u32>::new()], "what was taken is not there any more");
    }

    #[test]
    fn ids_that_no_model_has_are_left_out() {
        let text = FreshText::new(10);
        text.add(&[1, 10], &[]);
        text.add(&[1, 2], &[10]);
        text.add(&[1, 9], &[]);
        assert_eq!(text.take(1), [vec![1, 9]]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let text = FreshText::new(1000);
        (0..1000).for_each(|number| text.add(&[number], &[0; 9000]));
        let taken = text.take(1);
        assert_eq!((taken.len(), taken[0].len(), taken[0][0]), (KEPT, TOKENS, 999));
    }
}
