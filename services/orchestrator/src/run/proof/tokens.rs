//! The tokens that are scored.

use evenkeel_seeds::{RngCore, Stream, rng};

use crate::text::Tokenizer;

/// Draws for one token before any id is taken: a vocabulary has few special tokens.
const ATTEMPTS: u32 = 64;

/// Sequences of random tokens, the same for a seed and a vocabulary. Special tokens, and ids of the model that the tokenizer does not have,
/// are left out: engines refuse some of them, and others have embeddings that were never trained.
pub(super) fn sequences(seed: u64, tokenizer: &Tokenizer, vocabulary: u32, count: u32, length: usize) -> Vec<Vec<u32>> {
    let mut random = rng(seed, Stream::WeightsProof);
    let ids = tokenizer.vocabulary_size().min(vocabulary).max(1);
    let mut token = || {
        let mut draw = || (random.next_u64() % u64::from(ids)) as u32;
        (0..ATTEMPTS).map(|_| draw()).find(|&id| tokenizer.is_plain(id)).unwrap_or_default()
    };
    // A score needs a token before it.
    (0..count).map(|_| (0..length.max(2)).map(|_| token()).collect()).collect()
}
