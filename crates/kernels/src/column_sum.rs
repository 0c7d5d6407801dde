//! Sums of columns: gradients of biases, and of a norm's weight from its parts.

use crate::launch::{BLOCK, DeviceProperties, Launch, Pointer, Type, WARP, arguments, u32_of};
use evenkeel_errors::FieldError;

/// Rows that are worth a run of their own.
const ROWS: usize = 512;

/// Adds the column sums of a matrix to an fp32 row, in one launch or in two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSum {
    pub kind: Type,
    pub rows: usize,
    pub width: usize,
}

impl ColumnSum {
    /// fp32 values of workspace.
    pub fn workspace(&self, properties: DeviceProperties) -> usize {
        match self.splits(properties) {
            1 => 0,
            splits => splits * self.width,
        }
    }

    /// Runs of rows that are summed by different blocks: enough to fill the device.
    fn splits(&self, properties: DeviceProperties) -> usize {
        let tiles = self.tiles() as u64;
        let wanted = u64::from(properties.blocks(u64::MAX)).div_ceil(tiles) as usize;
        self.rows.div_ceil(ROWS).clamp(1, wanted.max(1))
    }

    fn tiles(&self) -> usize {
        self.width.div_ceil(WARP as usize).max(1)
    }

    /// The launches, in order.
    ///
    /// # Errors
    /// Too many rows or columns.
    pub fn launches(
        &self,
        properties: DeviceProperties,
        x: Pointer,
        out: Pointer,
        workspace: Pointer,
    ) -> Result<Vec<Launch>, FieldError> {
        let splits = self.splits(properties);
        if splits == 1 {
            return Ok(vec![self.launch(x, out, 1, true)?]);
        }
        let sums = Self { kind: Type::F32, rows: splits, width: self.width };
        Ok(vec![self.launch(x, workspace, splits, false)?, sums.launch(workspace, out, 1, true)?])
    }

    fn launch(&self, x: Pointer, out: Pointer, splits: usize, add: bool) -> Result<Launch, FieldError> {
        let rows = u32_of("rows of a column sum", self.rows)?;
        let width = u32_of("width of a column sum", self.width)?;
        let grid = u32_of("blocks of a column sum", splits * self.tiles())?;
        let arguments = arguments![x, out, rows, width, splits as u32, u32::from(add)];
        let sums = splits * self.width * if add { 8 } else { 4 };
        let bytes = self.rows * self.width * self.kind.size() + sums;
        Launch::new(format!("column_sum_{}", self.kind.name()), grid, BLOCK as usize * 4, bytes, arguments)
    }
}
