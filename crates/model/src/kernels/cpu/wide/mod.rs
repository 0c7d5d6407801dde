//! Matrix products in vectors of AVX-512, in the order of summation that [`super::matmul`] promises.
//!
//! One side of a product lies in the lanes of vectors, the other is broadcast, value by value. Whichever of the two
//! sides costs less to copy is packed into panels: for each term of a sum the values of up to 48 lanes, one after the
//! other. The other side is read where it is if the terms of its rows are consecutive, as they are in activations and
//! in weights as models store them: a weight is then read once, and never copied. Buffers are as large as half of a
//! second-level cache at most, and belong to the thread: a general library maps new ones for each product, which took a
//! quarter of a training step's time.

mod pack;
mod tile;
mod vectors;

use std::cell::RefCell;

use super::view::{INNER, Store, View};
use pack::{pack_lanes, pack_rows};
use tile::{Destination, Rows, Tile};
use vectors::LANES;

/// Rows of a tile: values of the side that is broadcast.
const ROWS: usize = 8;
/// Most vectors of a tile: eight rows of three are 24 sums, which with their operands fit the 32 registers.
const VECTORS: usize = 3;
/// Most lanes of a tile.
const WIDTH: usize = VECTORS * LANES;
/// Terms that are packed at a time. Sums are restarted there in any case.
const DEPTH: usize = 4 * INNER;
/// Values of panels that are packed at a time.
const PACKED: usize = 1 << 18;

thread_local! {
    static BUFFER: RefCell<Buffer> = const { RefCell::new(Buffer { values: Vec::new() }) };
}

/// Values of a vector, with the alignment that its loads need.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Aligned([f32; LANES]);

/// Memory for packed parts of matrices, which a thread keeps.
struct Buffer {
    values: Vec<Aligned>,
}

impl Buffer {
    fn of(&mut self, count: usize) -> &mut [f32] {
        let vectors = count.div_ceil(LANES);
        if self.values.len() < vectors {
            self.values.resize(vectors, Aligned([0.0; LANES]));
        }
        #[expect(unsafe_code, reason = "a slice of arrays as one of their values")]
        // SAFETY: `Aligned` is an array of values and nothing else (its size is its alignment).
        unsafe {
            std::slice::from_raw_parts_mut(self.values.as_mut_ptr().cast(), vectors * LANES)
        }
    }
}

/// Whether this processor has the vectors.
pub(super) fn is_supported() -> bool {
    is_x86_feature_detected!("avx512f")
}

/// c = alpha a b, or c += alpha a b, with at least one element and one term.
/// Which side is packed decides no bit.
///
/// # Panics
/// On a processor without the vectors.
pub(super) fn product(c: &mut [f32], c_stride: usize, a: View<'_>, b: View<'_>, alpha: f32, store: Store) {
    assert!(is_supported(), "a processor with AVX-512");
    let m = a.rows;
    let n = b.columns;
    let inner = a.columns;
    assert_eq!(inner, b.rows, "inner dimensions of a product");
    assert!((m - 1) * c_stride + n <= c.len(), "destination of a product");
    assert!(a.end() <= a.data.len() && b.end() <= b.data.len(), "operands of a product");
    // Elements of neighbouring lanes are written a row at a time, others by pieces of a row.
    let pieces = 3 * m * n / (2 * inner);
    let along_rows = cost(n, m, a.column_stride == 1) <= cost(m, n, b.row_stride == 1) + pieces;
    let (rows, lanes) = if along_rows { (a, b) } else { (b.t(), a.t()) };
    let mut c = Destination { values: c, stride: c_stride, along_rows };
    BUFFER.with_borrow_mut(|buffer| {
        for first in (0..inner).step_by(DEPTH) {
            let depth = DEPTH.min(inner - first);
            let rows = rows.columns(first, depth);
            let lanes = lanes.rows(first, depth);
            let store = if first > 0 { Store::Add } else { store };
            #[expect(unsafe_code, reason = "instructions that not every processor has")]
            // SAFETY: the processor has them, and views and destination are within their slices, by the assertions
            // above.
            unsafe {
                add_terms(&mut c, rows, lanes, alpha, store, buffer);
            }
        }
    });
}

/// What a term costs, about in cycles, for lanes that are packed and rows that may have to be.
fn cost(lanes: usize, rows: usize, rows_in_place: bool) -> usize {
    let products = lanes.next_multiple_of(LANES) * rows.next_multiple_of(ROWS) / (2 * LANES);
    products + lanes / 3 + if rows_in_place { 0 } else { rows / 3 }
}

/// Adds up to [`DEPTH`] terms.
///
/// # Safety
/// The processor has AVX-512, and every element of the views and of the destination is within its slice.
#[expect(unsafe_code, reason = "vectors are read and written by pointers")]
#[target_feature(enable = "avx512f")]
unsafe fn add_terms(
    c: &mut Destination<'_>,
    rows: View<'_>,
    lanes: View<'_>,
    alpha: f32,
    store: Store,
    buffer: &mut Buffer,
) {
    let depth = rows.columns;
    let vectors = lanes.columns.div_ceil(LANES);
    let panels = vectors.div_ceil(VECTORS);
    // As even as possible: a panel of one vector does not keep the processor busy.
    let begin = |panel: usize| panel * vectors / panels;
    let at_once = (PACKED / (depth * WIDTH)).clamp(1, panels);
    let rows_end = (ROWS * depth).next_multiple_of(LANES);
    let (packed_rows, packed) = buffer.of(rows_end + at_once * depth * WIDTH).split_at_mut(rows_end);
    let in_place = rows.column_stride == 1;
    let mut tile = Tile::new();
    for first in (0..panels).step_by(at_once) {
        let group = first..panels.min(first + at_once);
        for (panel, to) in group.clone().zip(packed.chunks_exact_mut(depth * WIDTH)) {
            // SAFETY: the caller's promises; a panel has room for all its vectors.
            unsafe { pack_lanes(to, lanes, begin(panel) * LANES, begin(panel + 1) - begin(panel)) };
        }
        for row in (0..rows.rows).step_by(ROWS) {
            let height = ROWS.min(rows.rows - row);
            let source = if in_place && height == ROWS {
                Rows { values: &rows.data[row * rows.row_stride..], stride: rows.row_stride, in_place }
            } else {
                // SAFETY: the caller's promises.
                unsafe { pack_rows(packed_rows, rows, row, height) };
                Rows { values: packed_rows, stride: 1, in_place: false }
            };
            for (panel, from) in group.clone().zip(packed.chunks_exact(depth * WIDTH)) {
                let lane = begin(panel) * LANES;
                let count = begin(panel + 1) - begin(panel);
                let area = tile::Area { row, height, lane, width: (count * LANES).min(lanes.columns - lane) };
                // SAFETY: the caller's promises; the area is within the destination, and what was packed has `depth`
                // terms.
                unsafe {
                    if store == Store::Add {
                        tile.read(c, area);
                    }
                    tile.add(source, from, count, depth, alpha, store);
                    tile.write(c, area);
                }
            }
        }
    }
}
