//! Samples of engines that have the learner's bits: some of them are compared before they are answered. An engine can
//! tell a request for proof from one for a sample, but not which samples are compared.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;

use evenkeel_proto::flatten;
use evenkeel_proto::v1::{Rollout, Sampling, ScoreItem, ScoreWeights};
use evenkeel_trust::WeightsFault;

use super::SharedProof;
use crate::backend::Backend;
use crate::error::Failure;

/// One in so many samples is compared: about a fiftieth of what training on all of them takes.
const ONE_IN: u64 = 16;

/// A sample, and what it was asked for with.
pub(crate) struct DrawnSample<'a> {
    pub(crate) version: u64,
    pub(crate) prompt: &'a [u32],
    pub(crate) sampling: &'a Sampling,
    pub(crate) rollout: &'a Rollout,
}

impl SharedProof {
    /// Compares a sample with the learner's log-probabilities to the bit, if it is one of those that are compared.
    ///
    /// # Errors
    /// A sample of other weights. They are proven again before the next request.
    pub(crate) async fn audit(&self, backend: &Backend, sample: DrawnSample<'_>) -> Result<(), Failure> {
        let is_chosen = RandomState::new().hash_one(sample.version).is_multiple_of(ONE_IN);
        if !is_chosen || !self.is_equal.load(Ordering::Relaxed) || is_truncated(sample.sampling) {
            return Ok(());
        }
        let tokens = flatten(&sample.rollout.segments).map_err(|error| Failure::server(error.to_string()))?;
        if tokens.token_ids.is_empty() {
            return Ok(());
        }
        let item = ScoreItem {
            prompt_token_ids: sample.prompt.to_vec(),
            response_token_ids: tokens.token_ids,
            // The likeliest token is reported with the probability that it has without a temperature.
            temperature: Some(sample.sampling.temperature.filter(|temperature| *temperature > 0.0).unwrap_or(1.0)),
            weights: Some(ScoreWeights { version: sample.version, ..ScoreWeights::default() }),
            ..ScoreItem::default()
        };
        let Ok(scores) = backend.scores(vec![item]).await? else { return Ok(()) };
        let wanted = scores.concat();
        let found = &tokens.log_probabilities;
        let equal = wanted.iter().zip(found).filter(|(a, b)| a.to_bits() == b.to_bits()).count();
        if equal == wanted.len() && equal == found.len() {
            return Ok(());
        }
        self.is_due.store(true, Ordering::Relaxed);
        self.verdicts.forget(sample.version);
        let message = format!(
            "{} of {} log-probabilities of a sample are not the learner's to the bit, although both compute with the same \
             arithmetic",
            wanted.len() - equal,
            wanted.len()
        );
        let engine = sample.rollout.engine.clone();
        Err(WeightsFault::Unproven { engine, version: sample.version, message }.into())
    }
}

/// Whether log-probabilities are of a distribution without some of the tokens.
fn is_truncated(sampling: &Sampling) -> bool {
    sampling.top_p.is_some_and(|mass| mass < 1.0) || sampling.top_k.is_some_and(|count| count > 0)
}
