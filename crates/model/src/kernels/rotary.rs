//! Rotary position embedding: the operation and its tables.

use super::Arrays;
use crate::config::Config;
use crate::error::Result;

/// The direction of [`Rotary::rotary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotaryDirection {
    /// Rotates by the position's angle.
    Forward,
    /// Rotates by the negative angle: the backward pass of a rotation is its inverse, with the same amplitude.
    Backward,
}

/// Rotary position embedding in the halves layout of Hugging Face (`rotate_half`).
pub trait Rotary: Arrays {
    /// Cosines and sines of every position and pair, times the amplitude of the rotation.
    type RotaryTable: Send + Sync;
    /// The table for a model, up to its longest context.
    fn rotary_table(&self, config: &Config) -> Result<Self::RotaryTable>;
    /// Rotates every head of x (n, heads * head_dim); row i is at `positions[i]`.
    fn rotary(
        &self,
        x: Self::Matrix,
        table: &Self::RotaryTable,
        positions: &[u32],
        direction: RotaryDirection,
    ) -> Result<Self::Matrix>;
}

/// cos and sin of position * frequency, (positions, d / 2) each, times the amplitude: angles in f32 as in transformers
/// and vLLM (the rounding of a large angle is part of the model).
pub(crate) fn rotary_angles(config: &Config) -> (Vec<f32>, Vec<f32>) {
    let half = config.head_dim / 2;
    let frequencies = config.rope.frequencies(config.head_dim);
    let amplitude = config.rope.amplitude();
    let angle = |position: usize, i: usize| f64::from(position as f32 * frequencies[i]);
    let angles = (0..config.max_position_embeddings).flat_map(|p| (0..half).map(move |i| angle(p, i)));
    angles.map(|angle| (libm::cos(angle) as f32 * amplitude, libm::sin(angle) as f32 * amplitude)).unzip()
}
