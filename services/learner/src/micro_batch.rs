//! Sequences packed into micro-batches by a token budget.

use evenkeel_model::{Config, Packed, Scores};

use crate::error::{LearnerError, Result};
use crate::tokens::{validate_ids, validate_length};

/// A sequence for the model: its token ids and the positions of the tokens to score.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    ids: Vec<u32>,
    scored: Vec<usize>,
}

impl Sequence {
    /// `scored`: positions in `ids`, from 1, ascending.
    pub(crate) fn new(ids: Vec<u32>, scored: Vec<usize>) -> Self {
        Self { ids, scored }
    }

    /// A prompt with a response whose tokens are all scored. `path` is that of the pair in errors.
    ///
    /// # Errors
    /// An empty prompt or response, an id outside the vocabulary, a sequence longer than the context.
    pub(crate) fn of_pair(config: &Config, path: &str, prompt: &[u32], response: &[u32]) -> Result<Self> {
        for (field, ids) in [("prompt", prompt), ("response", response)] {
            validate_ids(config, &format!("{path}.{field}"), ids).map_err(LearnerError::Input)?;
        }
        let ids = [prompt, response].concat();
        validate_length(config, path, ids.len(), "").map_err(LearnerError::Input)?;
        let scored = (prompt.len()..ids.len()).collect();
        Ok(Self { ids, scored })
    }
}

/// Packed micro-batches and the sequences in each.
pub(crate) struct MicroBatches {
    packed: Vec<Packed>,
    /// The indices of each micro-batch's sequences, in its order.
    members: Vec<Vec<usize>>,
    sequences: usize,
}

impl MicroBatches {
    /// Packs sequences into micro-batches of at most `budget` tokens, or of one longer sequence.
    ///
    /// # Errors
    /// A sequence that the model refuses.
    pub(crate) fn pack(config: &Config, sequences: &[Sequence], budget: usize) -> Result<Self> {
        let lengths: Vec<usize> = sequences.iter().map(|sequence| sequence.ids.len()).collect();
        let members = partition(&lengths, budget);
        let mut packed = Vec::with_capacity(members.len());
        for batch in &members {
            let mut one = Packed::default();
            for &index in batch {
                one.push(config, &sequences[index].ids, sequences[index].scored.iter().copied())?;
            }
            packed.push(one);
        }
        Ok(Self { packed, members, sequences: sequences.len() })
    }

    /// The micro-batches for the model.
    pub(crate) fn packed(&self) -> &[Packed] {
        &self.packed
    }

    /// The indices of the sequences of a micro-batch, in its order.
    pub(crate) fn members(&self, micro_batch: usize) -> &[usize] {
        &self.members[micro_batch]
    }

    /// Converts scores of each micro-batch to scores of each sequence, in the order of the sequences.
    pub(crate) fn unpack(&self, scores: Vec<Scores>) -> Vec<Scores> {
        let mut out = vec![Scores::default(); self.sequences];
        for ((members, packed), scores) in self.members.iter().zip(&self.packed).zip(scores) {
            for (number, &sequence) in members.iter().enumerate() {
                let range = packed.scored(number);
                let (logp, entropy) = (scores.logp[range.clone()].to_vec(), scores.entropy[range].to_vec());
                out[sequence] = Scores { logp, entropy };
            }
        }
        out
    }

    /// The same for lists with one entry for each scored token.
    pub(crate) fn unpack_tokens<T: Clone>(&self, tokens: Vec<Vec<T>>) -> Vec<Vec<T>> {
        let mut out = vec![Vec::new(); self.sequences];
        for ((members, packed), tokens) in self.members.iter().zip(&self.packed).zip(tokens) {
            for (number, &sequence) in members.iter().enumerate() {
                out[sequence] = tokens[packed.scored(number)].to_vec();
            }
        }
        out
    }
}

/// Assigns sequences to micro-batches of at most `budget` tokens, or of one longer sequence.
///
/// Longest first, so that the sequences of a micro-batch have similar lengths and the model's threads even loads.
/// The result depends on lengths alone; sequences of equal length keep their order.
fn partition(lengths: &[usize], budget: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(lengths[index]));
    let (mut batches, mut batch, mut tokens) = (Vec::new(), Vec::new(), 0);
    for index in order {
        if !batch.is_empty() && tokens + lengths[index] > budget {
            batches.push(std::mem::take(&mut batch));
            tokens = 0;
        }
        batch.push(index);
        tokens += lengths[index];
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::partition;

    proptest! {
        #[test]
        fn every_sequence_is_in_one_micro_batch_within_the_budget(
            lengths in prop::collection::vec(1usize..50, 0..60),
            budget in 1usize..120,
        ) {
            let batches = partition(&lengths, budget);
            let mut all: Vec<usize> = batches.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..lengths.len()).collect::<Vec<_>>());
            for batch in batches {
                let tokens: usize = batch.iter().map(|&i| lengths[i]).sum();
                prop_assert!(tokens <= budget || batch.len() == 1);
            }
        }
    }
}
