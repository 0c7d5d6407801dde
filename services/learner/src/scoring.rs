//! What a network tells of the tokens of sequences.

use evenkeel_model::sampling::{SampledFrom, TokenDraw, TokenStatistics};
use evenkeel_model::{Scores, TrainableModel};

use crate::error::Result;
use crate::micro_batch::MicroBatches;

/// The scores of a sequence.
#[derive(Clone, Debug)]
pub(crate) struct SequenceScores {
    /// Log-probabilities and entropies without truncation.
    pub(crate) plain: Scores,
    /// Statistics of the distributions that were sampled from, if they were asked for.
    pub(crate) statistics: Option<Vec<TokenStatistics>>,
    /// The tokens that the sequence's random numbers draw, where it has any.
    pub(crate) drawn: Vec<Option<u32>>,
}

/// Scores every sequence, in their order: at a temperature, or with the statistics of what was sampled from. `draws`:
/// of each sequence what is known of the draws of its tokens.
pub(crate) fn score(
    network: &dyn TrainableModel,
    batches: &MicroBatches,
    temperature: f32,
    sampled: Option<SampledFrom<'_>>,
    draws: &[Vec<TokenDraw>],
) -> Result<Vec<SequenceScores>> {
    let Some(from) = sampled else { return Ok(plain(batches, network.score(batches.packed(), temperature)?)) };
    let tokens = batches.unpack_tokens(network.score_sampled(batches.packed(), from, &batches.pack_tokens(draws))?);
    let of_sequence = tokens.into_iter().map(|tokens| SequenceScores {
        plain: Scores {
            logp: tokens.iter().map(|token| token.logp).collect(),
            entropy: tokens.iter().map(|token| token.entropy).collect(),
        },
        drawn: tokens.iter().map(|token| token.drawn).collect(),
        statistics: Some(tokens.into_iter().map(|token| token.statistics).collect()),
    });
    Ok(of_sequence.collect())
}

/// Scores of each micro-batch as those of each sequence, in their order.
pub(crate) fn plain(batches: &MicroBatches, scores: Vec<Scores>) -> Vec<SequenceScores> {
    let of_sequence = batches.unpack(scores).into_iter();
    of_sequence.map(|plain| SequenceScores { plain, statistics: None, drawn: Vec::new() }).collect()
}
