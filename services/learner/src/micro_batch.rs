//! Sequences packed into micro-batches.

use evenkeel_model::{Config, Packed, Scores};

use crate::blocks::Place;
use crate::error::Result;
use crate::parts::{by_prompt, in_order, lengths, one_by_one, partition};
use crate::sequence::Sequence;
use crate::settings::GradientPacking;

/// Packed micro-batches and the sequences in each.
pub(crate) struct MicroBatches {
    packed: Vec<Packed>,
    /// The indices of each micro-batch's sequences, in its order.
    members: Vec<Vec<usize>>,
    sequences: usize,
}

impl MicroBatches {
    /// Packs sequences to be scored into micro-batches of at most `budget` tokens, or of one longer part: a sequence, or several with one prompt,
    /// if prompts are `shared`.
    ///
    /// # Errors
    /// A sequence that the model refuses.
    pub(crate) fn pack(config: &Config, sequences: &[Sequence], budget: usize, shared: bool) -> Result<Self> {
        let parts = if shared { by_prompt(sequences, budget) } else { one_by_one(0..sequences.len()) };
        let batches = partition(&lengths(sequences, &parts), budget);
        let of_parts = |batch: Vec<usize>| (0, batch.into_iter().map(|part| parts[part].clone()).collect());
        Self::of(config, sequences, batches.into_iter().map(of_parts))
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
        let mut batches: Vec<(usize, Vec<Vec<usize>>)> = Vec::new();
        let mut first = 0;
        for of_block in places.chunk_by(|one, next| one.block == next.block) {
            let (block, all) = (of_block[0].block, first..first + of_block.len());
            first = all.end;
            match packing {
                GradientPacking::InOrder(tokens) => {
                    batches.extend(in_order(sequences, places, all, tokens).into_iter().map(|parts| (block, parts)));
                }
                GradientPacking::ByLength(tokens) => {
                    let parts = one_by_one(all);
                    let of_parts =
                        |batch: Vec<usize>| (block, batch.into_iter().map(|part| parts[part].clone()).collect());
                    batches.extend(partition(&lengths(sequences, &parts), tokens).into_iter().map(of_parts));
                }
            }
        }
        Self::of(config, sequences, batches)
    }

    /// From the block and the parts of each micro-batch: a part of several sequences has their prompt once.
    fn of(
        config: &Config,
        sequences: &[Sequence],
        batches: impl IntoIterator<Item = (usize, Vec<Vec<usize>>)>,
    ) -> Result<Self> {
        let mut all = Self { packed: Vec::new(), members: Vec::new(), sequences: sequences.len() };
        for (block, parts) in batches {
            let mut packed = Packed::default().in_block(block);
            for part in &parts {
                let scored = |index: usize| sequences[index].scored().iter().copied();
                match part[..] {
                    [one] => packed.push(config, sequences[one].ids(), scored(one))?,
                    _ => {
                        let prompt = part.first().map_or(&[][..], |&first| sequences[first].prompt());
                        let own = part.iter().map(|&index| (sequences[index].own(), scored(index)));
                        packed.push_shared(config, prompt, own)?;
                    }
                }
            }
            all.packed.push(packed);
            all.members.push(parts.concat());
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
