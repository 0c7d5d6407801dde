//! Section `proof` of a recipe.

use evenkeel_errors::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::engine_type::EngineType;

/// Maximum number of sequences of a proof, and of tokens of each: its cost is to be negligible compared with a step.
const MOST: u32 = 4096;

/// Section `proof`: whether the engines have the weights that they say they have. After an update the learner and
/// every engine score the same tokens of the run's own text; the run ends where an engine differs as one with old
/// weights would.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProofSettings {
    /// Check the weights before the first step and then at this interval in steps; 0 for never.
    pub every: u64,
    /// Sequences to score: 1 to 4096. Absent: 32 where the engines compute in f32, 64 elsewhere.
    pub sequences: Option<u32>,
    /// Scored tokens of each, at most what the model's context leaves: 1 to 4096. Absent: 12 where the engines
    /// compute in f32, 64 elsewhere.
    pub tokens: Option<u32>,
    /// Groups of tensors that are looked at in each proof, in turn, besides the weights as a whole (nothing loaded,
    /// one version behind): 0 to 64. Each costs the learner a forward pass over the tokens. As many failure modes, at
    /// least one, are tested on the audited samples of a step until all are ruled out.
    pub contrasts: u32,
    /// The type in which the engines hold weights, where it is narrower than `model.publish_type`: `bf16` or `f16`
    /// (vLLM: --dtype). The learner's side is rounded to it.
    pub engine_type: Option<EngineType>,
    /// Largest mean difference between the log-probabilities of learner and engine, in nats and above 0: beyond it
    /// the engine computes another model. Absent: 0.01 where learner, published weights and the embedded engine all
    /// have f32, 0.25 elsewhere.
    pub tolerance: Option<f64>,
}

impl Default for ProofSettings {
    fn default() -> Self {
        Self { every: 1, sequences: None, tokens: None, contrasts: 2, engine_type: None, tolerance: None }
    }
}

impl ProofSettings {
    /// The tolerance where a type narrower than f32 may be involved.
    pub const DEFAULT_TOLERANCE: f64 = 0.25;
    /// Sequences and tokens of each where engines compute in f32.
    pub const EXACT_SIZE: (u32, u32) = (32, 12);
    /// Sequences and tokens of each elsewhere.
    pub const NARROW_SIZE: (u32, u32) = (64, 64);

    /// Refuses values that are out of range.
    ///
    /// # Errors
    /// The first such field.
    pub fn validate(&self) -> Result<(), FieldError> {
        let within = |field: &str, value: Option<u32>| match value {
            Some(value) if !(1..=MOST).contains(&value) => Err(FieldError::new(field, value, format!("1 to {MOST}"))),
            _ => Ok(()),
        };
        within("sequences", self.sequences)?;
        within("tokens", self.tokens)?;
        if self.contrasts > 64 {
            return Err(FieldError::new("contrasts", self.contrasts, "0 to 64"));
        }
        match self.tolerance {
            Some(tolerance) if !(tolerance.is_finite() && tolerance > 0.0) => {
                Err(FieldError::new("tolerance", tolerance, "a finite number above 0, or absent"))
            }
            _ => Ok(()),
        }
    }

    /// The largest mean difference between learner and engine.
    pub fn tolerance(&self) -> f64 {
        self.tolerance.unwrap_or(Self::DEFAULT_TOLERANCE)
    }
}
