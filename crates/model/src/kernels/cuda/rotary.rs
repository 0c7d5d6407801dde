//! Rotary position embedding, in place.

use std::sync::PoisonError;

use evenkeel_kernels::{Rotation, rotary};

use super::{Cuda, Device};
use crate::config::Config;
use crate::error::Result;
use crate::kernels::{Rotary, RotaryDirection, rotary_angles};

/// Cosines and sines, fp32 (positions, half) each.
pub struct Table<M> {
    cosines: M,
    sines: M,
    half: usize,
}

impl<D: Device> Rotary for Cuda<D> {
    type Table = Table<D::Memory>;

    fn rotary_table(&self, config: &Config) -> Result<Self::Table> {
        let (cosines, sines) = rotary_angles(config);
        Ok(Table {
            cosines: self.upload_floats(&cosines)?,
            sines: self.upload_floats(&sines)?,
            half: config.head_dim / 2,
        })
    }

    fn rotary(
        &self,
        x: Self::Matrix,
        table: &Self::Table,
        positions: &[u32],
        direction: RotaryDirection,
    ) -> Result<Self::Matrix> {
        let rotation = Rotation {
            kind: x.kind(),
            rows: x.rows(),
            heads: x.width() / (2 * table.half).max(1),
            half: table.half,
            back: direction == RotaryDirection::Backward,
        };
        let angles = [&table.cosines, &table.sines].map(|values| self.device.address(values));
        let mut last = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        let uploaded = match last.take() {
            Some((same, memory)) if same == positions => (same, memory),
            _ => (positions.to_vec(), self.upload_ids(positions)?),
        };
        let at = self.device.address(&uploaded.1);
        *last = Some(uploaded);
        self.run(rotary(self.device.properties(), rotation, x.at(), angles, at))?;
        Ok(x)
    }
}
