//! What the backward pass recomputes.

use serde::{Deserialize, Serialize};

/// What the backward pass recomputes instead of reading what the forward pass kept. Gradients are the same to the bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Recompute {
    /// Nothing is recomputed: the most memory.
    #[default]
    None,
    /// Norms, with the rotation after them, and the gated activation: a third less memory, hardly any extra work.
    Selective,
    /// Everything in a layer but its input: the least memory, a third more work.
    Full,
}

impl Recompute {
    /// Every choice, from the most memory to the least.
    pub const ALL: [Self; 3] = [Self::None, Self::Selective, Self::Full];

    /// The name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Selective => "selective",
            Self::Full => "full",
        }
    }
}
