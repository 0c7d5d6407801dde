//! What an architecture's file says of it.

use serde_json::Value;

use super::Config;
use super::capabilities::Capabilities;
use super::names::TensorNames;
use crate::error::Result;

/// From an architecture's `config.json` and tensors to capabilities, and back.
pub(super) struct Mapping {
    /// The value of `architectures`.
    pub(super) class: &'static str,
    /// The value of `model_type`.
    pub(super) model_type: &'static str,
    /// What its layers have, with the defaults of transformers.
    pub(super) read: fn(&Value) -> Result<Capabilities>,
    /// Adds the keys by which `read` finds a model's capabilities again.
    pub(super) write: fn(&Config, &mut Value),
    /// The names of its tensors.
    pub(super) tensors: &'static TensorNames,
}
