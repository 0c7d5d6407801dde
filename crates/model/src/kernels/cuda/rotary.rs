//! Rotary position embedding, in place, and together with the norm of heads.

use std::sync::PoisonError;

use evenkeel_kernels::{ColumnSum, HeadTables, NormRotary, Pointer, Rotation, Type, rotary};

use super::{Cuda, Device, Gradient, Matrix};
use crate::config::Config;
use crate::error::Result;
use crate::kernels::{HeadNorm, HeadNormInput, RmsNorm, Rotary, RotaryDirection, rotary_angles};

/// Cosines and sines, fp32 (positions, half) each.
pub struct RotaryTable<M> {
    cosines: M,
    sines: M,
    half: usize,
}

impl<D: Device> Rotary for Cuda<D> {
    type RotaryTable = RotaryTable<D::Memory>;

    fn rotary_table(&self, config: &Config) -> Result<Self::RotaryTable> {
        let (cosines, sines) = rotary_angles(config);
        Ok(RotaryTable {
            cosines: self.upload_floats(&cosines)?,
            sines: self.upload_floats(&sines)?,
            half: config.head_dim / 2,
        })
    }

    fn rotary(
        &self,
        x: Self::Matrix,
        table: &Self::RotaryTable,
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
        let at = self.positions_at(positions)?;
        self.run(rotary(self.device.properties(), rotation, x.at(), angles, at))?;
        Ok(x)
    }
}

impl<D: Device> HeadNorm for Cuda<D> {
    fn norm_rotary(&self, x: &Self::Matrix, input: &HeadNormInput<'_, Self::RotaryTable>) -> Result<Self::Matrix> {
        if !NormRotary::takes(input.table.half) {
            let normed = self.rms_norm(x, input.weight, input.epsilon)?;
            return self.rotary(normed, input.table, input.positions, RotaryDirection::Forward);
        }
        let y = self.blank(x.rows(), x.width())?;
        let heads = heads_of(x, input);
        let tables = self.tables(input)?;
        self.run(heads.forward(self.device.properties(), x.at(), tables, y.at()))?;
        Ok(y)
    }

    /// The gradient replaces `dy` in place.
    fn norm_rotary_backward(
        &self,
        dy: Self::Matrix,
        x: &Self::Matrix,
        input: &HeadNormInput<'_, Self::RotaryTable>,
        grad: &mut Gradient<D::Memory>,
    ) -> Result<Self::Matrix> {
        if !NormRotary::takes(input.table.half) {
            let dy = self.rotary(dy, input.table, input.positions, RotaryDirection::Backward)?;
            return self.rms_norm_backward(&dy, x, input.weight, input.epsilon, grad, None);
        }
        let heads = heads_of(x, input);
        let tables = self.tables(input)?;
        let properties = self.device.properties();
        let parts = self.blank_of(Type::F32, heads.partial_rows(properties), 2 * heads.half)?;
        self.run(heads.backward(properties, [dy.at(), x.at()], tables, [dy.at(), parts.at()]))?;
        self.add_columns(ColumnSum { kind: Type::F32, rows: parts.rows(), width: parts.width() }, parts.at(), grad)?;
        Ok(dy)
    }
}

fn heads_of<M, T>(x: &Matrix<M>, input: &HeadNormInput<'_, RotaryTable<T>>) -> NormRotary {
    let half = input.table.half;
    let heads = x.width() / (2 * half).max(1);
    NormRotary { kind: x.kind(), rows: x.rows(), heads, half, epsilon: input.epsilon as f32 }
}

impl<D: Device> Cuda<D> {
    fn tables(&self, input: &HeadNormInput<'_, RotaryTable<D::Memory>>) -> Result<HeadTables> {
        let RotaryTable { cosines, sines, .. } = input.table;
        Ok(HeadTables {
            weight: self.device.parameter(input.weight, Type::F32)?,
            cosines: self.device.address(cosines),
            sines: self.device.address(sines),
            positions: self.positions_at(input.positions)?,
        })
    }

    /// Every layer of a pass has the same: they are uploaded once.
    fn positions_at(&self, positions: &[u32]) -> Result<Pointer> {
        let mut last = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        let uploaded = match last.take() {
            Some((same, memory)) if same == positions => (same, memory),
            _ => (positions.to_vec(), self.upload_ids(positions)?),
        };
        let at = self.device.address(&uploaded.1);
        *last = Some(uploaded);
        Ok(at)
    }
}
