//! What the server needs besides the training settings.

use std::path::PathBuf;

use candle_core::DType;
use evenkeel_proto::FieldError;
use evenkeel_rpc::server::ServerConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{LearnerError, Result};
use crate::publish::PublishOptions;
use crate::settings::LearnerSettings;

/// How many published versions may be kept.
pub(super) const KEEP_WEIGHTS: &str = "0 (all), or 2 or more, since engines may still read the version before";

/// The type of published weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PublishType {
    /// fp32.
    #[default]
    F32,
    /// bfloat16.
    Bf16,
    /// float16.
    F16,
}

/// Settings of the learner's server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServiceSettings {
    /// How it listens.
    pub server: ServerConfig,
    /// The Hugging Face folder that training begins with.
    pub model: PathBuf,
    /// Where checkpoints are written, one folder for each.
    pub checkpoints: PathBuf,
    /// Where weights are published, one folder for each version.
    pub weights: PathBuf,
    /// Checkpoints that are kept where a caller does not say how many; 0 keeps all. A run always says: `checkpoint.keep`.
    pub keep_checkpoints: u32,
    /// Published versions that are kept where a caller does not say how many: 0 keeps all, otherwise 2 or more, since
    /// engines may still read the one before. A run always says: `checkpoint.keep_weights`.
    pub keep_weights: u32,
    /// The type of published weights.
    pub publish_dtype: PublishType,
    /// Calls and items that may wait for the model; one more is answered RESOURCE_EXHAUSTED.
    pub queue: usize,
    /// How long a training step may wait for its next part while it holds the learner; it is then dropped, and nothing has changed.
    pub step_idle_ms: u64,
    /// How long after its last sign of life a run still has the learner for itself: no other run's checkpoint is loaded before.
    pub lease_ms: u64,
    /// Most groups, or examples, of one step.
    pub max_step_items: u32,
    /// What is trained, and how.
    pub training: LearnerSettings,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            server: ServerConfig::default(),
            model: PathBuf::new(),
            checkpoints: "checkpoints".into(),
            weights: "weights".into(),
            keep_checkpoints: 3,
            keep_weights: 3,
            publish_dtype: PublishType::default(),
            queue: 4096,
            step_idle_ms: 300_000,
            lease_ms: 600_000,
            max_step_items: 1 << 20,
            training: LearnerSettings::default(),
        }
    }
}

impl ServiceSettings {
    /// Checks every range.
    pub fn validate(&self) -> Result<()> {
        self.training.validate()?;
        if self.model.as_os_str().is_empty() {
            return Err(LearnerError::setting("model", "empty", "a Hugging Face folder"));
        }
        if self.keep_weights == 1 {
            return Err(LearnerError::setting("keep_weights", 1, KEEP_WEIGHTS));
        }
        if self.queue == 0 {
            return Err(LearnerError::setting("queue", 0, "1 or more"));
        }
        for (field, value) in [("step_idle_ms", self.step_idle_ms), ("max_step_items", self.max_step_items.into())] {
            if value == 0 {
                return Err(LearnerError::setting(field, 0, "1 or more"));
            }
        }
        Ok(())
    }

    pub(super) fn publish_options(&self) -> PublishOptions {
        let dtype = match self.publish_dtype {
            PublishType::F32 => DType::F32,
            PublishType::Bf16 => DType::BF16,
            PublishType::F16 => DType::F16,
        };
        PublishOptions { dtype, ..PublishOptions::default() }
    }
}

impl evenkeel_config::Settings for LearnerSettings {
    fn validate(&self) -> Result<(), FieldError> {
        self.validate().map_err(field_error)
    }
}

impl evenkeel_config::Settings for ServiceSettings {
    fn validate(&self) -> Result<(), FieldError> {
        self.server.validate().map_err(|error| error.within("server"))?;
        evenkeel_config::Settings::validate(&self.training).map_err(|error| error.within("training"))?;
        self.validate().map_err(field_error)
    }
}

/// The refusal of a setting as configuration says it, with where the value was written.
fn field_error(error: LearnerError) -> FieldError {
    match error {
        LearnerError::Setting { field, value, allowed } => FieldError::new(field, value, allowed),
        LearnerError::Objective(evenkeel_objective::Error::Setting { field, value, allowed }) => {
            FieldError::new(format!("objective.{field}"), value, allowed)
        }
        other => FieldError::new("settings", other, "what its message says"),
    }
}
