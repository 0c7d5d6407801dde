//! Architectures by their names: how the files of each say what its layers have. Nothing is computed by a name.
//!
//! A new one is a file beside `qwen3.rs`, with its [`Mapping`], and a line in [`Architecture::ALL`].

use std::fmt;

use serde_json::Value;

use super::capabilities::Capabilities;
use super::mapping::{Defaults, Mapping};
use super::names::TensorNames;
use super::window::Window;
use super::{Config, llama, mistral, qwen2, qwen3, refused, smollm3};
use crate::error::Result;

/// An architecture that this crate reads and writes.
#[derive(Clone, Copy)]
pub struct Architecture(&'static Mapping);

impl Architecture {
    /// Architecture of Qwen2 and Qwen2.5.
    pub const QWEN2: Self = Self(&qwen2::MAPPING);
    /// Architecture of Qwen3, whose attention normalises queries and keys.
    pub const QWEN3: Self = Self(&qwen3::MAPPING);
    /// Llama 2 and 3, and what has its layers.
    pub const LLAMA: Self = Self(&llama::MAPPING);
    /// Mistral without a sliding window.
    pub const MISTRAL: Self = Self(&mistral::MAPPING);
    /// Architecture of SmolLM3, some of whose layers have no positions.
    pub const SMOLLM3: Self = Self(&smollm3::MAPPING);
    /// Every supported architecture, in alphabetical order.
    pub const ALL: &[Self] = &[Self::LLAMA, Self::MISTRAL, Self::QWEN2, Self::QWEN3, Self::SMOLLM3];

    /// The value of `architectures` in `config.json`.
    pub fn class(self) -> &'static str {
        self.0.class
    }

    /// The value of `model_type` in `config.json`.
    pub fn model_type(self) -> &'static str {
        self.0.model_type
    }

    /// The names of its tensors.
    pub(crate) fn tensors(self) -> &'static TensorNames {
        self.0.tensors
    }

    pub(super) fn read(self, json: &Value) -> Result<Capabilities> {
        (self.0.read)(json)
    }

    pub(super) fn defaults(self) -> &'static Defaults {
        &self.0.defaults
    }

    /// Whether it reads a key that not every architecture has.
    pub(super) fn reads(self, key: &str) -> bool {
        self.0.keys.contains(&key)
    }

    pub(super) fn window(self, json: &Value) -> Result<Option<Window>> {
        (self.0.window)(json)
    }

    pub(super) fn write(self, config: &Config, json: &mut Value) {
        (self.0.write)(config, json);
    }

    /// The one that `architectures` names; without it, `model_type` does.
    pub(super) fn named_in(json: &Value) -> Result<Self> {
        let list = |name: fn(&Self) -> &'static str| Self::ALL.iter().map(name).collect::<Vec<_>>().join(", ");
        let allowed = || list(|each| each.class());
        let named = match json.get("architectures") {
            Some(Value::Array(names)) if !names.is_empty() => &names[0],
            Some(Value::Null) | None => {
                let found = json.get("model_type").unwrap_or(&Value::Null);
                let architecture = Self::ALL.iter().find(|each| found == each.model_type());
                return architecture
                    .copied()
                    .ok_or_else(|| refused("model_type", found, list(|each| each.model_type())));
            }
            Some(other) => return Err(refused("architectures", other, format!("a list with {}", allowed()))),
        };
        let architecture = Self::ALL.iter().find(|each| named == each.class());
        architecture.copied().ok_or_else(|| refused("architectures", named, allowed()))
    }
}

impl PartialEq for Architecture {
    fn eq(&self, other: &Self) -> bool {
        self.0.class == other.0.class
    }
}

impl Eq for Architecture {}

impl fmt::Debug for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.class)
    }
}
