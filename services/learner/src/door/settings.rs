//! What the server needs besides the training settings.

use std::path::PathBuf;

use candle_core::DType;
use evenkeel_common::config;
use evenkeel_common::server::ServerConfig;
use evenkeel_proto::FieldError;
use serde::{Deserialize, Serialize};

use crate::error::{LearnerError, Result};
use crate::publish::PublishOptions;
use crate::settings::LearnerSettings;

/// The type of published weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Checkpoints that are kept, 1 or more; older ones are removed.
    pub keep_checkpoints: usize,
    /// Published versions that are kept, 2 or more: engines may still read the one before.
    pub keep_weights: usize,
    /// The type of published weights.
    pub publish_dtype: PublishType,
    /// Calls and items that may wait for the model; one more is answered RESOURCE_EXHAUSTED.
    pub queue: usize,
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
        for (field, value, least) in [
            ("keep_checkpoints", self.keep_checkpoints, 1),
            ("keep_weights", self.keep_weights, 2),
            ("queue", self.queue, 1),
        ] {
            if value < least {
                return Err(LearnerError::setting(field, value, format!("{least} or more")));
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

impl config::Settings for LearnerSettings {
    fn check(&self) -> Result<(), FieldError> {
        self.validate().map_err(field_error)
    }
}

impl config::Settings for ServiceSettings {
    fn check(&self) -> Result<(), FieldError> {
        self.server.check().map_err(|error| error.within("server"))?;
        self.training.check().map_err(|error| error.within("training"))?;
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
