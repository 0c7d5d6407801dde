//! What ends a run: engines with other weights, samples from another distribution.

/// Weights that are not what they should be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WeightsFault {
    /// Weights with which the model computes no probabilities, though they are finite.
    #[error(
        "with version {version} of the weights the learner's mean log-probability of a token is {mean:.0}: the update \
         before has blown the weights up. Continue from a checkpoint before it with a lower \
         learner.optimizer.learning_rate or max_grad_norm"
    )]
    Diverged {
        /// Version of the weights.
        version: u64,
        /// The mean log-probability under these weights.
        mean: f64,
    },
    /// An engine whose weights are not the version it reports.
    #[error("engine {engine} does not have version {version} of the weights: {message}")]
    Unproven {
        /// Name of the engine.
        engine: String,
        /// The version that it reports.
        version: u64,
        /// What was found, and what to look at.
        message: String,
    },
}

/// An engine whose samples do not come from the policy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("step {step}: the samples of engine {engine} fail the audit of their {check}: {message}")]
pub struct SamplerFault {
    /// Name of the engine.
    pub engine: String,
    /// The step whose samples showed it; none of its groups has changed the weights.
    pub step: u64,
    /// The name of the check.
    pub check: &'static str,
    /// What was found, and the likely cause.
    pub message: String,
}
