//! Rows selected by number.

use evenkeel_errors::FieldError;
use std::collections::BTreeMap;

use crate::launch::{BLOCK, DeviceProperties, Launch, Pointer, Type, arguments, is_wide, step, u32_of};

/// A copy of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCopy {
    /// The type of the activations.
    pub kind: Type,
    /// Rows that are copied.
    pub rows: usize,
    pub width: usize,
}

impl RowCopy {
    /// With the bytes of a value that is read.
    fn launch(
        self,
        properties: DeviceProperties,
        name: &str,
        size: usize,
        wide: bool,
        [from, ids, to]: [Pointer; 3],
    ) -> Result<Launch, FieldError> {
        let bytes = self.rows * self.width * (size + self.kind.size());
        let rows = u32_of("rows", self.rows)?;
        let width = u32_of("width of a row", self.width)?;
        let name = format!("{name}_{}_{}", self.kind.name(), step(wide));
        Launch::new(name, properties.blocks(self.rows as u64), 0, bytes, arguments![from, ids, to, rows, width])
    }

    fn is_wide(self, pointers: &[Pointer]) -> bool {
        is_wide(self.kind, self.width, pointers)
    }
}

/// y\[i\] = table\[ids\[i\]\] of an fp32 table, in the type of the activations.
///
/// # Errors
/// Too many rows.
pub fn embed(
    properties: DeviceProperties,
    copy: RowCopy,
    table: Pointer,
    ids: Pointer,
    y: Pointer,
) -> Result<Launch, FieldError> {
    copy.launch(properties, "embed", 4, copy.is_wide(&[table, y]), [table, ids, y])
}

/// y\[i\] = x\[ids\[i\]\].
///
/// # Errors
/// Too many rows.
pub fn gather(
    properties: DeviceProperties,
    copy: RowCopy,
    x: Pointer,
    ids: Pointer,
    y: Pointer,
) -> Result<Launch, FieldError> {
    copy.launch(properties, "gather", copy.kind.size(), copy.is_wide(&[x, y]), [x, ids, y])
}

/// y\[to\[i\]\] = x\[i\] for distinct rows of a y of zeros.
///
/// # Errors
/// Too many rows.
pub fn scatter(
    properties: DeviceProperties,
    copy: RowCopy,
    x: Pointer,
    to: Pointer,
    y: Pointer,
) -> Result<Launch, FieldError> {
    copy.launch(properties, "scatter", copy.kind.size(), copy.is_wide(&[x, y]), [x, to, y])
}

/// Copies (rows, width) between matrices whose rows begin `strides` values apart: columns of a wider matrix, out of it
/// or into it.
///
/// # Errors
/// A width of 0, or too many rows.
pub fn columns(
    properties: DeviceProperties,
    copy: RowCopy,
    x: Pointer,
    y: Pointer,
    strides: [usize; 2],
) -> Result<Launch, FieldError> {
    let RowCopy { kind, rows, width } = copy;
    if width == 0 {
        return Err(FieldError::new("width of a row", 0, "1 or more"));
    }
    let wide = copy.is_wide(&[x, y]) && strides.iter().all(|&stride| is_wide(kind, stride, &[]));
    let each = if wide { 16 / kind.size() } else { 1 };
    let threads = (rows * width / each) as u64;
    let [from, to] = strides;
    let arguments = arguments![
        x,
        y,
        u32_of("rows", rows)?,
        u32_of("width of a row", width)?,
        u32_of("values between rows", from)?,
        u32_of("values between rows", to)?,
    ];
    let name = format!("columns_{}_{}", kind.name(), step(wide));
    let grid = properties.blocks(threads.div_ceil(u64::from(BLOCK)));
    Launch::new(name, grid, 0, 2 * rows * width * kind.size(), arguments)
}

/// The rows of a batch by the id that they embed, so that each row of the table is added to by one block, in one order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Rows, grouped by id and ascending in each group.
    pub order: Vec<u32>,
    /// The first place in `order` of each group, and the end of the last.
    pub starts: Vec<u32>,
    /// The id of each group, ascending.
    pub ids: Vec<u32>,
}

impl Segments {
    /// Groups the rows of a batch.
    pub fn of(ids: &[u32]) -> Self {
        let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (row, &id) in ids.iter().enumerate() {
            groups.entry(id).or_default().push(row as u32);
        }
        let mut segments = Self { order: Vec::with_capacity(ids.len()), starts: vec![0], ids: Vec::new() };
        for (id, rows) in groups {
            segments.order.extend(rows);
            segments.starts.push(segments.order.len() as u32);
            segments.ids.push(id);
        }
        segments
    }
}

/// Adds the `rows` rows of dy to the rows of the table's fp32 gradient; `order`, `starts` and `ids` as in [`Segments`],
/// on the device.
///
/// # Errors
/// Too many rows.
pub fn embed_backward(
    properties: DeviceProperties,
    kind: Type,
    [rows, segments, width]: [usize; 3],
    dy: Pointer,
    [order, starts, ids]: [Pointer; 3],
    table: Pointer,
) -> Result<Launch, FieldError> {
    let wide = is_wide(kind, width, &[dy, table]);
    let bytes = width * (rows * kind.size() + 8 * segments);
    let count = u32_of("distinct ids", segments)?;
    let width = u32_of("width of a row", width)?;
    let arguments = arguments![dy, order, starts, ids, table, count, width];
    let name = format!("embed_backward_{}_{}", kind.name(), step(wide));
    Launch::new(name, properties.blocks(segments as u64), 0, bytes, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_grouped_by_id_and_ascending_in_each_group() {
        let segments = Segments::of(&[7, 3, 7, 7, 3, 0]);
        assert_eq!(segments.ids, [0, 3, 7]);
        assert_eq!(segments.starts, [0, 1, 3, 6]);
        assert_eq!(segments.order, [5, 1, 4, 0, 2, 3]);
        assert_eq!(Segments::of(&[]), Segments { order: Vec::new(), starts: vec![0], ids: Vec::new() });
    }
}
