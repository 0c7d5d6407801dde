//! Sequences packed into micro-batches.

use evenkeel_model::{Config, Packed, Scores};

use crate::blocks::Place;
use crate::error::{LearnerError, Result};
use crate::settings::GradientPacking;
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
    /// Packs sequences to be scored into micro-batches of at most `budget` tokens, or of one longer sequence.
    ///
    /// # Errors
    /// A sequence that the model refuses.
    pub(crate) fn pack(config: &Config, sequences: &[Sequence], budget: usize) -> Result<Self> {
        let members = partition(&lengths(sequences), budget);
        Self::of(config, sequences, members.into_iter().map(|members| (0, members)))
    }

    /// Packs sequences whose gradient is summed, each of which has its place; blocks ascend.
    ///
    /// # Errors
    /// A sequence that the model refuses.
    pub(crate) fn pack_in_blocks(
        config: &Config,
        sequences: &[Sequence],
        places: &[Place],
        packing: GradientPacking,
    ) -> Result<Self> {
        let lengths = lengths(sequences);
        let mut batches = Vec::new();
        for of_block in places.chunk_by(|one, next| one.block == next.block) {
            let first = batches.iter().map(|(_, members): &(usize, Vec<usize>)| members.len()).sum::<usize>();
            let lengths = &lengths[first..first + of_block.len()];
            let members = match packing {
                GradientPacking::InOrder(tokens) => in_order(lengths, of_block, tokens),
                GradientPacking::ByLength(tokens) => partition(lengths, tokens),
            };
            let in_pass = |members: Vec<usize>| members.into_iter().map(|member| first + member).collect();
            batches.extend(members.into_iter().map(|members| (of_block[0].block, in_pass(members))));
        }
        Self::of(config, sequences, batches)
    }

    /// From the block and the sequences of each micro-batch.
    fn of(
        config: &Config,
        sequences: &[Sequence],
        batches: impl IntoIterator<Item = (usize, Vec<usize>)>,
    ) -> Result<Self> {
        let mut all = Self { packed: Vec::new(), members: Vec::new(), sequences: sequences.len() };
        for (block, members) in batches {
            let mut packed = Packed::default().in_block(block);
            for &index in &members {
                packed.push(config, &sequences[index].ids, sequences[index].scored.iter().copied())?;
            }
            all.packed.push(packed);
            all.members.push(members);
        }
        Ok(all)
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

    /// Converts lists with one entry for each scored token in the same way.
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

fn lengths(sequences: &[Sequence]) -> Vec<usize> {
    sequences.iter().map(|sequence| sequence.ids.len()).collect()
}

/// Assigns sequences to micro-batches of at most `tokens` tokens of one group, or of one longer sequence, in order.
fn in_order(lengths: &[usize], places: &[Place], tokens: usize) -> Vec<Vec<usize>> {
    let (mut batches, mut length) = (Vec::<Vec<usize>>::new(), 0);
    for index in 0..lengths.len() {
        length += lengths[index];
        match batches.last_mut() {
            Some(batch) if length <= tokens && places[index].group == places[index - 1].group => batch.push(index),
            _ => {
                batches.push(vec![index]);
                length = lengths[index];
            }
        }
    }
    batches
}

/// Assigns sequences to micro-batches of at most `budget` tokens, or of one longer sequence.
///
/// Longest first, so that the sequences of a micro-batch have similar lengths and the model's threads even loads.
/// The result depends on lengths alone; sequences of equal length keep their order.
fn partition(lengths: &[usize], budget: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(lengths[index]));
    let mut batches = Vec::new();
    let mut batch = Vec::new();
    let mut tokens = 0;
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

    use super::{Place, in_order, partition};

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

        #[test]
        fn sequences_packed_in_order_stay_in_order_and_within_their_group_whatever_is_packed_with_it(
            groups in prop::collection::vec(prop::collection::vec(1usize..50, 1..6), 1..8),
            tokens in 1usize..120,
        ) {
            let lengths = groups.concat();
            let of_groups = groups.iter().enumerate().flat_map(|(group, lengths)| vec![Place { block: 0, group }; lengths.len()]);
            let places: Vec<Place> = of_groups.collect();
            let batches = in_order(&lengths, &places, tokens);
            prop_assert_eq!(batches.concat(), (0..lengths.len()).collect::<Vec<_>>());
            for batch in &batches {
                prop_assert!(batch.iter().all(|&member| places[member].group == places[batch[0]].group));
                prop_assert!(batch.iter().map(|&member| lengths[member]).sum::<usize>() <= tokens || batch.len() == 1);
            }
            // A group alone has the same micro-batches.
            let sizes = batches.iter().map(Vec::len);
            let alone = groups.iter().flat_map(|group| in_order(group, &vec![Place { block: 0, group: 0 }; group.len()], tokens));
            prop_assert!(sizes.eq(alone.map(|batch| batch.len())));
        }
    }
}
