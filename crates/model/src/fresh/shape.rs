//! Settings: the shape of a fresh model.

use serde::{Deserialize, Serialize};

use super::characters::CHARACTER_TOKENS;
use crate::{ModelError, Result};

/// Maximum number of parameters: writing more would block the process for too long.
const MAX_PARAMETERS: u64 = 1_000_000_000;
/// Maximum number of layers: each has a cost besides its parameters.
const MAX_LAYERS: usize = 1024;

/// The shape of a fresh model. By default about 0.3 M parameters, with a head dimension that stock engines support.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct FreshShape {
    /// Rows of the embedding, at least the 99 tokens of the character tokenizer.
    pub vocabulary_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward block.
    pub intermediate_size: usize,
    /// Number of decoder layers.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head; even.
    pub head_dim: usize,
    /// Longest sequence, prompt and response together.
    pub context_tokens: usize,
    /// Whether the head is tied to the embedding. Off by default, since vLLM 0.32 on a CPU keeps the old head of such a
    /// model when it reloads weights.
    pub tied: bool,
    /// Standard deviation of random matrices, above 0.
    pub deviation: f64,
}

impl Default for FreshShape {
    fn default() -> Self {
        Self {
            vocabulary_size: 128,
            hidden_size: 96,
            intermediate_size: 256,
            layers: 3,
            heads: 3,
            kv_heads: 1,
            head_dim: 32,
            context_tokens: 256,
            tied: false,
            deviation: 0.02,
        }
    }
}

impl FreshShape {
    /// Refuses an invalid shape, or one that is too large.
    ///
    /// # Errors
    /// [`ModelError::Input`] with the first field that is out of range; an empty field means the shape as a whole.
    pub fn validate(&self) -> Result<()> {
        let require = |field: &str, value: String, holds: bool, allowed: String| {
            if holds { Ok(()) } else { Err(ModelError::input(field, value, allowed)) }
        };
        let vocabulary = self.vocabulary_size;
        let allowed = format!("at least {CHARACTER_TOKENS}, the tokens of the character tokenizer");
        require("vocabulary_size", vocabulary.to_string(), vocabulary >= CHARACTER_TOKENS, allowed)?;
        let parameters = self.parameters();
        let allowed = format!("at most {MAX_PARAMETERS}");
        require("", format!("{parameters} parameters"), parameters <= MAX_PARAMETERS, allowed)?;
        require("layers", self.layers.to_string(), self.layers <= MAX_LAYERS, format!("at most {MAX_LAYERS}"))?;
        let deviation = self.deviation;
        let positive = deviation.is_finite() && deviation > 0.0;
        require("deviation", deviation.to_string(), positive, "a finite number above 0".to_owned())
    }

    /// Parameters of a model of this shape; `u64::MAX` on overflow.
    pub fn parameters(&self) -> u64 {
        let wide = |number: usize| number as u128;
        let times = u128::saturating_mul;
        let hidden = wide(self.hidden_size);
        let heads = times(wide(self.heads), wide(self.head_dim));
        let kv_heads = times(wide(self.kv_heads), wide(self.head_dim));
        let matrices = [
            times(times(hidden, heads), 2),
            times(times(hidden, kv_heads), 2),
            times(times(hidden, wide(self.intermediate_size)), 3),
            times(hidden, 2),
            times(wide(self.head_dim), 2),
        ];
        let layer = matrices.into_iter().fold(0, u128::saturating_add);
        let embeddings = if self.tied { 1 } else { 2 };
        let embedding = times(times(wide(self.vocabulary_size), hidden), embeddings);
        let all = embedding.saturating_add(times(layer, wide(self.layers))).saturating_add(hidden);
        u64::try_from(all).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_counted_as_they_are_written_and_never_overflow() {
        assert_eq!(FreshShape::default().parameters(), 320_352);
        let tied = FreshShape { tied: true, ..FreshShape::default() };
        assert_eq!(tied.parameters(), 320_352 - 128 * 96);
        let huge = FreshShape { hidden_size: usize::MAX, layers: usize::MAX, ..FreshShape::default() };
        assert_eq!(huge.parameters(), u64::MAX);
    }

    #[test]
    fn a_shape_that_cannot_be_is_refused_by_its_field() {
        let refused = |change: &dyn Fn(&mut FreshShape)| {
            let mut shape = FreshShape::default();
            change(&mut shape);
            match shape.validate() {
                Err(ModelError::Input(error)) => (error.field, error.allowed),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(&|shape| shape.vocabulary_size = 98).0, "vocabulary_size");
        assert_eq!(refused(&|shape| shape.hidden_size = 1_000_000_000).1, "at most 1000000000");
        assert_eq!(refused(&|shape| shape.layers = 5000).0, "layers");
        assert_eq!(refused(&|shape| shape.deviation = 0.0).0, "deviation");
        assert!(FreshShape::default().validate().is_ok());
    }
}
