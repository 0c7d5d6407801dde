//! The engines of a run as trust asks them.

use evenkeel_proto::v1::WeightsRef;
use evenkeel_trust::{EngineScorer, EngineScores};

use super::equality::Equality;
use crate::clients::Generation;
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::rollout::EngineWeights;

/// How often engines that do not have the weights to be checked are updated to them.
const UPDATES: u32 = 10;

/// Scores tokens on every engine of a run. Engines that lost the weights since they were updated to them, as with a
/// restart of the generation service, are updated to them again.
pub(super) struct RunEngines<'a> {
    pub(super) generation: &'a Generation,
    pub(super) weights: &'a EngineWeights,
    /// What the engines are to have.
    pub(super) reference: &'a WeightsRef,
    pub(super) temperature: f32,
    pub(super) equality: &'a Equality,
}

impl EngineScorer for RunEngines<'_> {
    type Error = Halt;

    async fn score(&self, sequences: &[Vec<u32>]) -> Result<Vec<EngineScores>, Halt> {
        let version = self.reference.version;
        for _ in 0..UPDATES {
            let seen = self.weights.seen().await.updates;
            match self.generation.prove_weights(version, sequences, self.temperature).await? {
                Some(mut scores) => {
                    scores.iter_mut().for_each(|scores| scores.is_f32 = self.equality.computes_in_f32(&scores.engine));
                    return Ok(scores);
                }
                None => self.weights.restore(Some(self.reference), seen).await?,
            };
        }
        let message = format!("the engines were updated to version {version} {UPDATES} times and have another one");
        Err(RunError::Refused { service: Dependency::Generation, what: "ProveWeights".to_owned(), message }.into())
    }
}
