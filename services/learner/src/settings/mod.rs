//! The learner's settings, their defaults and their ranges.

mod compute;
mod optimizer;

pub use compute::{Compute, ComputeType};
pub use optimizer::{OptimizerSettings, Schedule};

use evenkeel_objective::{Correction, Error, MAX_REWARD};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{LearnerError, Result};

/// Which log-probabilities the ratio of the first update is taken against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OldLogp {
    /// The learner's own, under the weights before the first update on the batch. Where one update takes the whole
    /// batch they come from the update's own forward pass (ratio 1), otherwise from a forward pass before.
    #[default]
    Recompute,
    /// The engine's: no extra pass, and the ratio also corrects for the mismatch between engine and learner.
    Rollout,
}

/// The shape of the batches that a run will send, as far as its settings determine it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchShape {
    /// Responses to each prompt.
    pub group_size: usize,
    /// The largest reward in size, shaping included.
    pub largest_reward: f64,
}

/// Everything that decides what a step does. Unknown fields are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LearnerSettings {
    /// Advantages, aggregation, policy term, correction, KL and entropy.
    pub objective: evenkeel_objective::Settings,
    /// The policy's optimizer.
    pub optimizer: OptimizerSettings,
    /// The optimizer of the supervised warm start, with moments of its own.
    pub supervised: OptimizerSettings,
    /// The sampling temperature, above 0: the learner scores under the distribution that the engine sampled from.
    pub temperature: f32,
    /// The log-probabilities that the ratio is taken against.
    pub old_logp: OldLogp,
    /// Groups in an optimizer update, never split; 0 takes the whole batch in one.
    pub mini_batch_groups: usize,
    /// Passes over a batch, 1 or more.
    pub epochs: usize,
    /// Whether each epoch takes the groups in a random (seeded) order rather than that of the data.
    pub shuffle: bool,
    /// Seed of everything random in the learner (the order of groups under `shuffle`). A run hands over its own
    /// `run.seed` with each step, so that it is no setting of a file and no part of [`hash`](Self::hash).
    #[serde(skip)]
    pub seed: u64,
    /// Device, compute type, threads and memory.
    pub compute: Compute,
}

impl Default for LearnerSettings {
    fn default() -> Self {
        Self {
            objective: evenkeel_objective::Settings::default(),
            optimizer: OptimizerSettings::default(),
            supervised: OptimizerSettings { learning_rate: 1e-5, ..OptimizerSettings::default() },
            temperature: 1.0,
            old_logp: OldLogp::default(),
            mini_batch_groups: 0,
            epochs: 1,
            shuffle: false,
            seed: 0,
            compute: Compute::default(),
        }
    }
}

impl LearnerSettings {
    /// Checks every range.
    ///
    /// # Errors
    /// The first setting that is out of range, with its place, value and what is allowed.
    pub fn validate(&self) -> Result<()> {
        self.objective.validate()?;
        self.optimizer.validate("optimizer")?;
        self.supervised.validate("supervised")?;
        self.compute.validate()?;
        if !(self.temperature.is_finite() && self.temperature > 0.0) {
            return Err(LearnerError::setting("temperature", self.temperature, "a finite number above 0"));
        }
        if self.epochs == 0 {
            return Err(LearnerError::setting("epochs", 0, "1 or more"));
        }
        let correction = self.objective.correction;
        if self.old_logp == OldLogp::Rollout && correction != Correction::None {
            let allowed = "none with old_logp = rollout, where the ratio itself is taken against the engine's \
                           log-probabilities and the factor of a correction would always be 1";
            return Err(LearnerError::setting("objective.correction", correction, allowed));
        }
        Ok(())
    }

    /// Checks everything that a step of this shape would be refused for.
    ///
    /// # Errors
    /// The first field of the batch that these settings cannot train on, with its value and what is allowed.
    pub fn validate_batch(&self, batch: BatchShape) -> Result<()> {
        self.objective.validate_group_size(batch.group_size).map_err(|error| match error {
            Error::Setting { value, allowed, .. } => LearnerError::setting("group_size", value, allowed),
            other => other.into(),
        })?;
        if batch.largest_reward.is_nan() || batch.largest_reward.abs() > MAX_REWARD {
            let allowed = format!("a finite number up to {MAX_REWARD:e} in size");
            return Err(LearnerError::setting("largest_reward", batch.largest_reward, allowed));
        }
        Ok(())
    }

    /// Settings without effect, one sentence each, for the user at the start of a run.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.is_single_update() && self.old_logp == OldLogp::Recompute {
            notes.push(format!(
                "the clip of policy = {} never acts: with one update for each batch and old_logp = recompute every \
                 ratio is 1 (mini_batch_groups or epochs make more updates)",
                self.objective.policy
            ));
        }
        notes
    }

    /// The settings that decide the bits of a run on this machine: threads resolved, and defaults for what changes memory
    /// alone.
    pub fn rules(&self) -> Self {
        let compute = Compute {
            threads: self.compute.resolved_threads(),
            recompute: Compute::default().recompute,
            ..self.compute.clone()
        };
        Self { compute, ..self.clone() }
    }

    /// The digest by which caller and learner make sure that they have the same training settings: `sha256:` and
    /// hexadecimal digits, over every setting that changes a result (neither the device nor micro-batches).
    pub fn hash(&self) -> String {
        let rules = Self { compute: Compute { dtype: self.compute.dtype, ..Compute::default() }, ..self.clone() };
        let text = serde_json::to_string(&rules).expect("numbers and names serialise");
        format!("sha256:{}", crate::digest::hex(Sha256::new_with_prefix(text)))
    }

    /// Whether one update takes the whole batch, so that its gradient can be summed while groups still come.
    pub fn is_single_update(&self) -> bool {
        self.mini_batch_groups == 0 && self.epochs == 1
    }
}
