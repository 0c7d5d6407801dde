//! The tokens that learner and engines score: text of the run, another piece of it in every proof.
//!
//! Noise of an engine that scores the same tokens again with the same weights is the same noise and proves nothing new;
//! and text that the model writes itself has far less noise, and more movement, than random tokens.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use evenkeel_seeds::{RngCore, Stream, rng};

/// Draws for one token before any id is taken: a vocabulary has few special tokens.
const ATTEMPTS: u32 = 64;
/// Tokens in which the beginnings of two sequences must differ.
const BEGINNING: usize = 5;

/// How many sequences a proof has, and of how many tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProbeSize {
    pub(crate) sequences: usize,
    /// Scored ones. Each sequence has one more, since a score needs a token before it.
    pub(crate) tokens: usize,
}

impl ProbeSize {
    /// Tokens of a sequence.
    fn length(self) -> usize {
        (self.tokens + 1).max(2)
    }
}

/// The text of a run: its prompts, and answers of the newest step.
pub struct ProbeText {
    seed: u64,
    prompts: Vec<Arc<[u32]>>,
    answers: Vec<Vec<u32>>,
    /// Where there is no text, random plain tokens below this id.
    vocabulary: u32,
    is_plain: Box<dyn Fn(u32) -> bool + Send + Sync>,
}

impl ProbeText {
    /// Text of which `prompts` is what there is before anything is sampled. Ids of the model are below `vocabulary`;
    /// `is_plain` says whether one stands for a piece of text.
    pub fn new(
        seed: u64,
        prompts: Vec<Arc<[u32]>>,
        vocabulary: u32,
        is_plain: impl Fn(u32) -> bool + Send + Sync + 'static,
    ) -> Self {
        let vocabulary = vocabulary.max(1);
        Self { seed, prompts, answers: Vec::new(), vocabulary, is_plain: Box::new(is_plain) }
    }

    /// Prompts with their answers, in place of those of an earlier step.
    pub(crate) fn set_answers(&mut self, answers: Vec<Vec<u32>>) {
        if !answers.is_empty() {
            self.answers = answers;
        }
    }

    /// The sequences of a version, which follow from it, the seed and the text. No two begin alike: an engine's noise
    /// in the same tokens after the same tokens is the same, and would count twice. Where there is too little text,
    /// random tokens make up for it.
    pub(crate) fn draw(&self, version: u64, size: ProbeSize) -> Vec<Vec<u32>> {
        let mut random = rng(self.seed, Stream::WeightsProof { version });
        let mut below = |bound: usize| (random.next_u64() % bound.max(1) as u64) as usize;
        let mut sequences = if self.answers.is_empty() {
            pieces(self.prompts.iter().map(AsRef::as_ref), size, &mut below)
        } else {
            pieces(self.answers.iter().map(Vec::as_slice), size, &mut below)
        };
        while sequences.len() < size.sequences {
            sequences.push((0..size.length()).map(|_| self.random_token(&mut below)).collect());
        }
        sequences
    }

    fn random_token(&self, below: &mut impl FnMut(usize) -> usize) -> u32 {
        let mut draw = || below(self.vocabulary as usize) as u32;
        (0..ATTEMPTS).map(|_| draw()).find(|&id| (self.is_plain)(id)).unwrap_or_default()
    }
}

impl fmt::Debug for ProbeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prompts, answers, .. } = self;
        write!(f, "ProbeText {{ {} prompts, {} answers }}", prompts.len(), answers.len())
    }
}

/// Pieces of texts, drawn without replacement, at most as many as are wanted. No two begin alike.
fn pieces<'a>(
    texts: impl Iterator<Item = &'a [u32]>,
    size: ProbeSize,
    below: &mut impl FnMut(usize) -> usize,
) -> Vec<Vec<u32>> {
    let mut all: Vec<&[u32]> = Vec::new();
    texts.for_each(|text| cut(text, size.length(), below, &mut all));
    let mut pieces = Vec::new();
    let mut beginnings = BTreeSet::new();
    while pieces.len() < size.sequences && !all.is_empty() {
        let piece = all.swap_remove(below(all.len()));
        if beginnings.insert(&piece[..piece.len().min(BEGINNING)]) {
            pieces.push(piece.to_vec());
        }
    }
    pieces
}

/// Pieces of a text of that length, side by side, from a random first one; all of a text that is shorter. A piece has
/// two tokens or more.
fn cut<'a>(text: &'a [u32], length: usize, below: &mut impl FnMut(usize) -> usize, pieces: &mut Vec<&'a [u32]>) {
    if text.len() > length {
        let first = below(text.len() % length + 1);
        pieces.extend(text[first..].chunks_exact(length));
    } else if text.len() > 1 {
        pieces.push(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: ProbeSize = ProbeSize { sequences: 32, tokens: 12 };

    fn drawn(texts: &[Vec<u32>], version: u64, size: ProbeSize) -> Vec<Vec<u32>> {
        let mut random = rng(1, Stream::WeightsProof { version });
        let mut below = |bound: usize| (random.next_u64() % bound.max(1) as u64) as usize;
        pieces(texts.iter().map(Vec::as_slice), size, &mut below)
    }

    #[test]
    fn no_tokens_after_the_same_tokens_are_scored_twice() {
        // Equal answers, and answers with the same beginning.
        let long: Vec<u32> = (0..65).map(|number| number * number % 31).collect();
        let mut answers: Vec<Vec<u32>> = (0..8).map(|_| long.clone()).collect();
        answers.extend((0..8).map(|number| vec![1, 2, 3, 4, 5, number]));
        for version in 0..50 {
            let sequences = drawn(&answers, version, SIZE);
            let beginnings: BTreeSet<_> = sequences.iter().map(|sequence| &sequence[..BEGINNING]).collect();
            assert_eq!(beginnings.len(), sequences.len());
            assert_eq!(sequences.iter().filter(|sequence| sequence.len() == 6).count(), 1, "{sequences:?}");
            // Eight copies of a text of five pieces, each cut at one of few places.
            assert!((6..=32).contains(&sequences.len()));
        }
        // A text alone is cut side by side.
        let sequences = drawn(std::slice::from_ref(&long), 0, SIZE);
        let mut joined: Vec<u32> = sequences.concat();
        let mut sorted = long;
        joined.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(joined, sorted);
    }

    #[test]
    fn each_version_has_other_text_and_the_same_version_the_same() {
        let text: Vec<u32> = (0..1000).map(|number| number * number % 641).collect();
        let probe = |version| drawn(std::slice::from_ref(&text), version, SIZE);
        assert_eq!((probe(3), probe(3).len()), (probe(3), 32));
        assert_ne!(probe(3), probe(4));
        assert!(probe(3).iter().all(|sequence| text.windows(13).any(|piece| piece == sequence.as_slice())));
    }

    #[test]
    fn what_is_too_short_to_be_scored_is_left_out() {
        assert!(drawn(&[vec![], vec![3]], 0, SIZE).is_empty());
        assert_eq!(drawn(&[vec![3, 4]], 0, SIZE), [[3, 4]]);
    }
}
