//! What the backward pass recomputes.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// What the backward pass recomputes instead of reading what the forward pass kept. Gradients are the same to the bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Recompute {
    /// Nothing.
    #[default]
    None,
    /// Norms, with the rotation after them, and the gated activation: a third less memory, hardly any extra work.
    Selective,
    /// Everything in a layer but its input: the least memory, a third more work.
    Full,
}

impl Recompute {
    /// All of them, from the most memory to the least.
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

impl<'de> Deserialize<'de> for Recompute {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Name)
    }
}

/// Refuses the truth values of earlier versions with what they are called now.
struct Name;

impl Visitor<'_> for Name {
    type Value = Recompute;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("none, selective or full (none was called false, full was called true)")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Recompute, E> {
        let found = Recompute::ALL.into_iter().find(|recompute| recompute.name() == text);
        found.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}
