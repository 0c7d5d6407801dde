//! What an architecture's file says of it.

use serde_json::Value;

use super::Config;
use super::capabilities::Capabilities;
use super::names::TensorNames;
use super::window::Window;
use crate::error::Result;

/// From an architecture's `config.json` and tensors to capabilities, and back.
pub(super) struct Mapping {
    /// The value of `architectures`.
    pub(super) class: &'static str,
    /// The value of `model_type`.
    pub(super) model_type: &'static str,
    /// What transformers takes where a key is missing.
    pub(super) defaults: Defaults,
    /// Keys that only this architecture and some others have: elsewhere they would go unread.
    pub(super) keys: &'static [&'static str],
    /// What its layers have, with the defaults of transformers.
    pub(super) read: fn(&Value) -> Result<Capabilities>,
    /// The window in which some layers attend, if any do.
    pub(super) window: fn(&Value) -> Result<Option<Window>>,
    /// Adds the keys by which `read` finds a model's capabilities again.
    pub(super) write: fn(&Config, &mut Value),
    /// The names of its tensors.
    pub(super) tensors: &'static TensorNames,
}

/// The defaults in which the architectures differ.
pub(super) struct Defaults {
    pub(super) rope_theta: f64,
    pub(super) max_position_embeddings: usize,
    /// One for each query head where absent, and where the key is null.
    pub(super) num_key_value_heads: Option<usize>,
}
