//! Rotary position embedding in fp32.

use candle_core::{D, DType, Tensor};

use super::Portable;
use crate::config::Config;
use crate::error::Result;
use crate::kernels::{HeadNorm, Rotary, RotaryDirection, rotary_angles};

/// Cosines and sines, (positions, head_dim / 2) each, fp32.
#[derive(Clone, Debug)]
pub struct RotaryTable {
    cos: Tensor,
    sin: Tensor,
    half: usize,
}

impl HeadNorm for Portable {}

impl Rotary for Portable {
    type RotaryTable = RotaryTable;

    fn rotary_table(&self, config: &Config) -> Result<RotaryTable> {
        let (cos, sin) = rotary_angles(config);
        let half = config.head_dim / 2;
        let shape = (config.max_position_embeddings, half);
        Ok(RotaryTable {
            cos: Tensor::from_vec(cos, shape, &self.device)?,
            sin: Tensor::from_vec(sin, shape, &self.device)?,
            half,
        })
    }

    fn rotary(&self, x: Tensor, table: &RotaryTable, positions: &[u32], direction: RotaryDirection) -> Result<Tensor> {
        let rows = self.indices(positions)?;
        let cos = table.cos.index_select(&rows, 0)?.unsqueeze(1)?;
        let sin = table.sin.index_select(&rows, 0)?.unsqueeze(1)?;
        let sin = if direction == RotaryDirection::Forward { sin } else { sin.neg()? };
        let heads = x.to_dtype(DType::F32)?.reshape((positions.len(), (), 2 * table.half))?;
        let a = heads.narrow(D::Minus1, 0, table.half)?;
        let b = heads.narrow(D::Minus1, table.half, table.half)?;
        let rotated_a = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
        let rotated_b = (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?;
        Ok(Tensor::cat(&[rotated_a, rotated_b], D::Minus1)?.reshape(x.shape())?.to_dtype(self.dtype)?)
    }
}
