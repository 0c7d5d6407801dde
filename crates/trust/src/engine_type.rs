//! The type in which engines hold weights.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A type in which engines hold weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineType {
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    F16,
    /// Single precision.
    F32,
}

impl EngineType {
    /// The name in safetensors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "BF16",
            Self::F16 => "F16",
            Self::F32 => "F32",
        }
    }
}

impl fmt::Display for EngineType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name().to_lowercase())
    }
}
