//! One step: which tokens each sequence feeds, and how threads share the sequences.
//!
//! Each thread takes its sequences through the whole model and draws their next tokens while the logits are still in
//! its cache. Threads wait for each other only at the end of the step.

use evenkeel_model::decode::DecodeStep;
use evenkeel_model::sampling::{LogprobsMode, Sampler};
use evenkeel_model::{Config, Decoder, parameter_specs};

use super::sequence::Sequence;
use crate::finish::FinishReason;

/// A model up to this size fits a core's own caches, or nearly.
const CACHED_BYTES: usize = 8 << 20;
/// Shares for each thread of such a model.
const SHARES_OF_A_THREAD: usize = 4;
/// Tokens below which a share costs more than it gains by balancing.
const MIN_SHARE: usize = 32;

/// Decides how many tokens each sequence feeds: one if it is decoding; prompts feed up to `prefill` together. Returns
/// the sum.
pub(super) fn plan(sequences: &mut [Sequence], mut prefill: usize) -> usize {
    for sequence in sequences.iter_mut() {
        prefill = sequence.plan(prefill);
    }
    sequences.iter().map(Sequence::planned).sum()
}

/// Maximum number of shares of a step.
///
/// One share for each thread costs least, but then the slowest thread delays the step. If the weights of the whole
/// model fit the caches, reading them again costs little, so there are more shares, and idle threads take the next one.
pub(super) fn max_shares(config: &Config, threads: usize) -> usize {
    let bytes: usize = parameter_specs(config).0.iter().map(|spec| 4 * spec.shape.iter().product::<usize>()).sum();
    threads * if bytes <= CACHED_BYTES { SHARES_OF_A_THREAD } else { 1 }
}

/// Runs the plan and draws the next tokens, on the threads of the current pool.
pub(super) fn step(
    decoder: &Decoder,
    mode: LogprobsMode,
    sequences: &mut [Sequence],
    samplers: &mut [Sampler],
    threads: usize,
) {
    let total: usize = sequences.iter().map(Sequence::planned).sum();
    let mut left = (sequences, total);
    let parts = (total / MIN_SHARE).clamp(threads, samplers.len());
    rayon::scope(|scope| {
        for (part, sampler) in samplers[..parts].iter_mut().enumerate() {
            let (sequences, tokens) = left;
            let share = tokens.div_ceil(parts - part);
            let mut taken = 0;
            let count = if part + 1 == parts {
                sequences.len()
            } else {
                sequences
                    .iter()
                    .position(|sequence| {
                        let enough = taken >= share;
                        taken += if enough { 0 } else { sequence.planned() };
                        enough
                    })
                    .unwrap_or(sequences.len())
            };
            let (mine, rest) = sequences.split_at_mut(count);
            left = (rest, tokens - taken);
            // The last share is this thread's own.
            if part + 1 == parts {
                run(decoder, mode, mine, sampler);
                break;
            }
            scope.spawn(move |_| run(decoder, mode, mine, sampler));
        }
    });
}

fn run(decoder: &Decoder, mode: LogprobsMode, sequences: &mut [Sequence], sampler: &mut Sampler) {
    let mut steps: Vec<DecodeStep<'_>> = sequences.iter_mut().filter_map(|sequence| sequence.step(mode)).collect();
    if steps.is_empty() {
        return;
    }
    let logits = decoder.step(&mut steps);
    drop(steps);
    let planned = sequences.iter_mut().filter(|sequence| sequence.planned() > 0);
    let mut logits = match logits {
        Ok(logits) => logits,
        Err(error) => {
            // Requests were validated on arrival, so this is a failure of the machine (memory). It fails all sequences
            // of the share.
            tracing::error!(%error, "a decoding step failed");
            for sequence in planned {
                sequence.end(FinishReason::Error(error.to_string()));
            }
            return;
        }
    };
    let vocabulary = decoder.config().vocab_size;
    for (sequence, row) in planned.zip(logits.chunks_exact_mut(vocabulary)) {
        sequence.advance(row, sampler, mode);
    }
}
