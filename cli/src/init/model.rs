//! What the size of a model suggests for a recipe.

use std::path::Path;

use anyhow::{Context, Result};
use evenkeel_model::{Config, parameter_specs};

/// The learning rate of the recipe `smollm2`, and the width of its model.
const RATE: f64 = 1.5e-5;
const WIDTH: f64 = 576.0;

/// Number of parameters below which answers at a temperature of 1 are rarely right.
const SMALL: u64 = 1_000_000_000;

/// The size of a model.
pub(super) struct ModelScale {
    pub(super) hidden_size: usize,
    pub(super) parameters: u64,
}

impl ModelScale {
    pub(super) fn of(folder: &Path) -> Result<Self> {
        let (config, _) = Config::load(folder).context("--model")?;
        let size = |shape: &[usize]| shape.iter().map(|&length| length as u64).product::<u64>();
        let parameters = parameter_specs(&config).0.iter().map(|spec| size(&spec.shape)).sum();
        Ok(Self { hidden_size: config.hidden_size, parameters })
    }

    /// That of `smollm2` times 576 / hidden size: the wider a matrix, the less each of its weights may move. Two digits.
    pub(super) fn learning_rate(&self) -> String {
        format!("{:.1e}", RATE * WIDTH / self.hidden_size as f64)
    }

    /// That of `smollm2` for small models.
    pub(super) fn temperature(&self) -> f32 {
        if self.parameters < SMALL { 0.8 } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_model_learns_at_a_lower_rate() {
        let scale = |hidden_size| ModelScale { hidden_size, parameters: SMALL };
        assert_eq!(scale(576).learning_rate(), "1.5e-5", "the recipe's own");
        assert_eq!(scale(3584).learning_rate(), "2.4e-6");
        assert_eq!(
            (scale(3584).temperature(), ModelScale { hidden_size: 576, parameters: 135_000_000 }.temperature()),
            (1.0, 0.8)
        );
    }
}
