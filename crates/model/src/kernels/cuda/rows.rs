//! Rows selected by number.

use candle_core::Tensor;
use evenkeel_kernels::{RowCopy, Segments, Type, cast, embed, embed_backward, gather, scatter};

use super::{Cuda, Device, Gradient, Matrix, type_of};
use crate::error::Result;
use crate::kernels::Rows;

impl<D: Device> Rows for Cuda<D> {
    fn embed(&self, table: &Tensor, ids: &[u32]) -> Result<Self::Matrix> {
        let kind = type_of(table)?;
        let from = self.device.parameter(table, kind)?;
        let list = self.upload_ids(ids)?;
        let list = self.device.address(&list);
        let properties = self.device.properties();
        let y = self.blank(ids.len(), table.dim(1)?)?;
        match (kind, self.kind) {
            (Type::F32, _) => self.run(embed(properties, self.copy(&y), from, list, y.at()))?,
            (Type::Bf16, Type::Bf16) => self.run(gather(properties, self.copy(&y), from, list, y.at()))?,
            (Type::Bf16, Type::F32) => {
                let narrow = self.blank_of(kind, y.rows(), y.width())?;
                self.run(gather(properties, self.copy(&narrow), from, list, narrow.at()))?;
                self.run(cast(properties, y.values(), (kind, narrow.at()), (self.kind, y.at())))?;
            }
        }
        Ok(y)
    }

    fn embed_backward(&self, dy: &Self::Matrix, ids: &[u32], table: &mut Gradient<D::Memory>) -> Result<()> {
        let segments = Segments::of(ids);
        let [order, starts, distinct] =
            [&segments.order, &segments.starts, &segments.ids].map(|list| self.upload_ids(list));
        let order = order?;
        let starts = starts?;
        let distinct = distinct?;
        let lists = [&order, &starts, &distinct].map(|list| self.device.address(list));
        let sizes = [dy.rows(), segments.ids.len(), dy.width()];
        self.run(embed_backward(self.device.properties(), dy.kind(), sizes, dy.at(), lists, table.at()))
    }

    fn select_rows(&self, x: &Self::Matrix, rows: &[u32]) -> Result<Self::Matrix> {
        let y = self.blank(rows.len(), x.width())?;
        let list = self.upload_ids(rows)?;
        self.run(gather(self.device.properties(), self.copy(&y), x.at(), self.device.address(&list), y.at()))?;
        Ok(y)
    }

    fn scatter_rows(&self, dy: &Self::Matrix, rows: &[u32], total: usize) -> Result<Self::Matrix> {
        let memory = self.device.zeros(total * dy.width() * dy.kind().size())?;
        let y = Matrix::new(self.device.address(&memory), memory, dy.kind(), [total, dy.width()]);
        let list = self.upload_ids(rows)?;
        self.run(scatter(self.device.properties(), self.copy(dy), dy.at(), self.device.address(&list), y.at()))?;
        Ok(y)
    }
}

impl<D: Device> Cuda<D> {
    fn copy(&self, rows: &Matrix<D::Memory>) -> RowCopy {
        RowCopy { kind: rows.kind(), rows: rows.rows(), width: rows.width() }
    }
}
