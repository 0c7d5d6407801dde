//! RMSNorm of the heads of queries and keys, followed by their rotation.

use candle_core::Tensor;

use super::{RmsNorm, Rotary, RotaryDirection};
use crate::error::Result;

/// What is normalised, and by which positions it is rotated.
pub struct HeadNormInput<'a, T> {
    /// The weight of the norm, (head_dim).
    pub weight: &'a Tensor,
    /// Added to the mean of squares.
    pub epsilon: f64,
    /// Cosines and sines of the rotation.
    pub table: &'a T,
    /// Position of each row in its sequence.
    pub positions: &'a [u32],
}

/// Norm and rotation of heads. Kernels may do both in one pass over memory.
pub trait HeadNorm: RmsNorm + Rotary {
    /// Normalises and rotates the heads of x (n, heads * head_dim).
    fn norm_rotary(&self, x: &Self::Matrix, input: &HeadNormInput<'_, Self::RotaryTable>) -> Result<Self::Matrix> {
        let normed = self.rms_norm(x, input.weight, input.epsilon)?;
        self.rotary(normed, input.table, input.positions, RotaryDirection::Forward)
    }

    /// The gradient of x from that of the result; the weight's gradient is added to `grad`.
    fn norm_rotary_backward(
        &self,
        dy: Self::Matrix,
        x: &Self::Matrix,
        input: &HeadNormInput<'_, Self::RotaryTable>,
        grad: &mut Self::Gradient,
    ) -> Result<Self::Matrix> {
        let dy = self.rotary(dy, input.table, input.positions, RotaryDirection::Backward)?;
        self.rms_norm_backward(&dy, x, input.weight, input.epsilon, grad, None)
    }
}
