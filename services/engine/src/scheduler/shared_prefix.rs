//! Prompts that begin alike are computed once: the samples of a prompt, and what a chat template puts before every
//! question.
//!
//! A sequence that begins takes the keys and values of the running one with the longest beginning in common; while that
//! one still computes them, it waits. Nothing is kept for later. Since a sequence's bits depend on its own tokens
//! alone, however they are split into steps, what is copied is what it would have computed.

use evenkeel_model::Decoder;

use super::sequence::Sequence;
use crate::finish::FinishReason;
use crate::metrics::Metrics;

/// Computing fewer tokens than this is faster than waiting for a step.
const LEAST: usize = 16;

/// What a sequence has in common with another one.
struct Common {
    with: usize,
    /// Tokens in common, without the last of the sequence's own: it is fed for its logits.
    length: usize,
    /// How many of these the other has keys and values of.
    ready: usize,
}

/// Gives sequences that begin what running ones have, or makes them wait for it.
pub(super) fn share(sequences: &mut [Sequence], decoder: &Decoder, metrics: &Metrics) {
    for number in 0..sequences.len() {
        if !sequences[number].may_take_keys() {
            continue;
        }
        match longest(sequences, number) {
            Some(Common { length, ready, .. }) if ready < length => sequences[number].wait(),
            Some(Common { with, length, .. }) => {
                let copied = sequences[with].keys(decoder, length);
                match copied.transpose() {
                    Ok(Some(cache)) => {
                        sequences[number].take_keys(cache);
                        metrics.shared(length);
                    }
                    Ok(None) => {}
                    Err(error) => sequences[number].end(FinishReason::Error(error.to_string())),
                }
            }
            None => {}
        }
    }
}

/// The longest beginning that a sequence has in common with one that has its keys and values, or computes them before
/// it in the order of arrival.
fn longest(sequences: &[Sequence], number: usize) -> Option<Common> {
    let own = &sequences[number];
    let common = |(with, other): (usize, &Sequence)| {
        let mut length = other.common(own).min(own.tokens() - 1);
        let ready = other.ready().min(length);
        // One that decodes does not grow towards this one's tokens, and one behind it may wait for this one.
        if !(other.is_computing_prompt() && with < number) {
            length = ready;
        }
        (with != number && length >= LEAST).then_some(Common { with, length, ready })
    };
    sequences.iter().enumerate().filter_map(common).max_by_key(|common| (common.length, common.ready))
}
