//! Sequences packed into micro-batches.

use std::ops::Range;

use evenkeel_model::{Config, Packed, Scores};

use crate::blocks::Place;
use crate::error::Result;
use crate::parts::{by_length, by_prompt, in_order, one_by_one};
use crate::sequence::Sequence;
use crate::settings::GradientPacking;

/// Packed micro-batches and the sequences in each.
pub(crate) struct MicroBatches {
    packed: Vec<Packed>,
    /// The indices of each micro-batch's sequences, in its order.
    members: Vec<Vec<usize>>,
    /// The scored tokens of each of these.
    scored: Vec<Vec<Range<usize>>>,
    sequences: usize,
}

impl MicroBatches {
    /// Packs sequences to be scored into micro-batches of at most `budget` tokens, or of one longer part: a sequence,
    /// or several with one prompt, if prompts are `shared`.
    ///
    /// # Errors
    /// A sequence that the model refuses.
    pub(crate) fn pack(config: &Config, sequences: &[Sequence], budget: usize, shared: bool) -> Result<Self> {
        let parts = if shared { by_prompt(sequences, budget) } else { one_by_one(0..sequences.len()) };
        Self::of(config, sequences, by_length(sequences, &parts, budget).into_iter().map(|parts| (0, parts)))
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
            let block = of_block[0].block;
            let all = first..first + of_block.len();
            first = all.end;
            let micro_batches = match packing {
                GradientPacking::InOrder(tokens) => in_order(sequences, places, all, tokens),
                GradientPacking::ByLength(tokens) => by_length(sequences, &one_by_one(all), tokens),
            };
            batches.extend(micro_batches.into_iter().map(|parts| (block, parts)));
        }
        Self::of(config, sequences, batches)
    }

    /// From the block and the parts of each micro-batch: a part of several sequences has their prompt once.
    fn of(
        config: &Config,
        sequences: &[Sequence],
        batches: impl IntoIterator<Item = (usize, Vec<Vec<usize>>)>,
    ) -> Result<Self> {
        let mut all = Self { packed: Vec::new(), members: Vec::new(), scored: Vec::new(), sequences: sequences.len() };
        for (block, parts) in batches {
            let mut packed = Packed::default().in_block(block);
            for part in &parts {
                let scored = |index: usize| sequences[index].scored().iter().copied();
                match part[..] {
                    [one] => match sequences[one].targets() {
                        Some(targets) => packed.push_targets(config, sequences[one].ids(), targets)?,
                        None => {
                            packed.push(config, sequences[one].ids(), scored(one))?;
                            for (ids, scored) in sequences[one].others() {
                                packed.push(config, ids, scored.iter().copied())?;
                            }
                        }
                    },
                    _ => {
                        let prompt = part.first().map_or(&[][..], |&first| sequences[first].prompt());
                        let own = part.iter().map(|&index| (sequences[index].own(), scored(index)));
                        packed.push_shared(config, prompt, own)?;
                    }
                }
            }
            let members = parts.concat();
            all.scored.push(scored_of(&packed, sequences, &members));
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

    /// Which scored tokens of a micro-batch belong to a sequence, by its number there.
    pub(crate) fn scored(&self, micro_batch: usize, number: usize) -> Range<usize> {
        self.scored[micro_batch][number].clone()
    }

    /// Converts scores of each micro-batch to scores of each sequence, in the order of the sequences.
    pub(crate) fn unpack(&self, scores: Vec<Scores>) -> Vec<Scores> {
        let mut out = vec![Scores::default(); self.sequences];
        for ((members, ranges), scores) in self.members.iter().zip(&self.scored).zip(scores) {
            for (&sequence, range) in members.iter().zip(ranges) {
                let logp = scores.logp[range.clone()].to_vec();
                let entropy = scores.entropy[range.clone()].to_vec();
                out[sequence] = Scores { logp, entropy };
            }
        }
        out
    }

    /// The other way round: from lists with one entry for each scored token of a sequence to those of each micro-batch.
    pub(crate) fn pack_tokens<T: Clone>(&self, of_sequences: &[Vec<T>]) -> Vec<Vec<T>> {
        let pack = |members: &Vec<usize>| members.iter().flat_map(|&sequence| of_sequences[sequence].clone()).collect();
        self.members.iter().map(pack).collect()
    }

    /// Converts lists with one entry for each scored token in the same way as scores.
    pub(crate) fn unpack_tokens<T: Clone>(&self, tokens: Vec<Vec<T>>) -> Vec<Vec<T>> {
        let mut out = vec![Vec::new(); self.sequences];
        for ((members, ranges), tokens) in self.members.iter().zip(&self.scored).zip(tokens) {
            for (&sequence, range) in members.iter().zip(ranges) {
                out[sequence] = tokens[range.clone()].to_vec();
            }
        }
        out
    }
}

/// The scored tokens of each member, with those of further sequences of its response.
fn scored_of(packed: &Packed, sequences: &[Sequence], members: &[usize]) -> Vec<Range<usize>> {
    let mut next = 0;
    let range = |&member: &usize| {
        let first = next;
        let last = next + sequences[member].others().len();
        next = last + 1;
        packed.scored(first).start..packed.scored(last).end
    };
    members.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor};
    use evenkeel_model::{BoxError, Coefficients, Parameters, TokenLoss};

    use super::*;
    use crate::TrainingSettings;
    use crate::model::Model;
    use crate::test_model;

    /// Coefficients that depend on a token and its place.
    struct Waves;

    impl TokenLoss for Waves {
        fn coefficients(&self, _: usize, batch: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
            let of_sequence = |sequence: usize| batch.scored(sequence).enumerate();
            let all = (0..batch.sequences()).flat_map(of_sequence);
            let logp = all.map(|(place, token)| (batch.targets()[token] as f32 + 0.7 * place as f32).sin()).collect();
            Ok(Coefficients { logp, entropy: vec![0.1; scores.logp.len()] })
        }
    }

    /// The gradient of a group of responses of these lengths, and its micro-batches.
    fn gradient(prompt: usize, responses: &[usize], shared: bool) -> (Vec<f32>, usize) {
        let config = Config { max_position_embeddings: 800, ..test_model::config() };
        let parameters = Parameters::random(&config, 5, 0.2, &Device::Cpu).unwrap();
        let mut model = Model::new(config, parameters, &TrainingSettings::default(), crate::Division::ALONE).unwrap();
        let sequence_of = |(number, length): (usize, &usize)| {
            let ids = (0..prompt).chain((0..*length).map(|at| at + 3 * number)).map(|id| id as u32 * 7 % 11);
            let sequence = Sequence::new(ids.collect(), prompt, (prompt..prompt + length).collect());
            if shared { sequence } else { sequence.alone() }
        };
        let sequences: Vec<Sequence> = responses.iter().enumerate().map(sequence_of).collect();
        let places = vec![Place { block: 0, group: 0 }; sequences.len()];
        let batches = model.pack_in_blocks(&sequences, &places).unwrap();
        model.accumulate(&batches, 0.9, &Waves).unwrap();
        let host = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        (model.take_gradients().unwrap().iter().flat_map(host).collect(), batches.packed().len())
    }

    #[test]
    fn a_group_has_the_gradient_of_its_responses_alone_also_where_it_is_cut() {
        let cases: [(usize, &[usize], usize); 6] = [
            (1, &[5, 1, 9, 9], 1),
            (30, &[13; 8], 1),
            (30, &[40; 8], 2),
            // A response as long as a micro-batch, and one that is longer.
            (40, &[200, 50, 256, 90, 90, 300, 10], 5),
            // A long prompt has as many tokens after it.
            (400, &[100; 8], 2),
            (300, &[20], 1),
        ];
        for (prompt, responses, micro_batches) in cases {
            let (found, count) = gradient(prompt, responses, true);
            let (wanted, _) = gradient(prompt, responses, false);
            assert_eq!(count, micro_batches, "{prompt} {responses:?}");
            let size = |values: &mut dyn Iterator<Item = f32>| values.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            let apart = size(&mut found.iter().zip(&wanted).map(|(a, b)| a - b)) / size(&mut wanted.iter().copied());
            assert!(apart < 1e-5, "{prompt} {responses:?}: {apart:e}");
            // One response has no one to share with.
            assert_eq!(responses.len() == 1, apart == 0.0);
        }
    }

    #[test]
    fn a_prompt_of_another_group_is_never_continued() {
        let config = test_model::config();
        let sequences = [[1, 2, 3], [1, 2, 4], [1, 5, 6]].map(|ids| Sequence::new(ids.to_vec(), 2, vec![2]));
        let places = [0; 3].map(|group| Place { block: 0, group });
        // The same group, but not the same prompt.
        let batches =
            MicroBatches::pack_in_blocks(&config, &sequences, &places, GradientPacking::InOrder(256)).unwrap();
        assert_eq!(batches.members, [vec![0, 1], vec![2]]);
        assert_eq!(batches.packed[0].ids(), [1, 2]);
    }
}
