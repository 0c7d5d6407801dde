//! A tile of a product: eight rows by up to three vectors, whose sums are in registers.

use std::arch::x86_64::{
    _mm512_fmadd_ps, _mm512_load_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_mul_ps, _mm512_set1_ps,
    _mm512_setzero_ps, _mm512_store_ps,
};

use super::super::view::{INNER, Store};
use super::vectors::{LANES, first_lanes, read_columns, write_columns};
use super::{ROWS, VECTORS, WIDTH};

/// Where a product goes: element (row, lane) is at row * stride + lane, or at lane * stride + row.
pub(super) struct Destination<'a> {
    pub(super) values: &'a mut [f32],
    pub(super) stride: usize,
    /// Whether lanes are neighbours.
    pub(super) along_rows: bool,
}

/// The part of a destination that a tile covers.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) row: usize,
    pub(super) height: usize,
    pub(super) lane: usize,
    pub(super) width: usize,
}

/// Eight rows: value `term` of row r is at r * stride + term if they are read in place, and at 8 * term + r if they are
/// packed.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) values: &'a [f32],
    pub(super) stride: usize,
    pub(super) in_place: bool,
}

/// The elements of a tile.
#[repr(C, align(64))]
pub(super) struct Tile([[f32; WIDTH]; ROWS]);

impl Tile {
    pub(super) fn new() -> Self {
        Self([[0.0; WIDTH]; ROWS])
    }

    /// Sets the elements to alpha times the sums of the terms, or adds these to them.
    ///
    /// # Safety
    /// The processor has AVX-512; rows and panel have `depth` terms, and the panel is aligned.
    #[expect(unsafe_code, reason = "vectors are read by pointers")]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn add(
        &mut self,
        rows: Rows<'_>,
        panel: &[f32],
        vectors: usize,
        depth: usize,
        alpha: f32,
        store: Store,
    ) {
        // SAFETY: the caller's promises.
        unsafe {
            match (vectors, rows.in_place) {
                (1, true) => self.add_terms::<1, true>(rows, panel, depth, alpha, store),
                (2, true) => self.add_terms::<2, true>(rows, panel, depth, alpha, store),
                (_, true) => self.add_terms::<3, true>(rows, panel, depth, alpha, store),
                (1, false) => self.add_terms::<1, false>(rows, panel, depth, alpha, store),
                (2, false) => self.add_terms::<2, false>(rows, panel, depth, alpha, store),
                (_, false) => self.add_terms::<3, false>(rows, panel, depth, alpha, store),
            }
        }
    }

    /// # Safety
    /// As for [`Self::add`].
    #[expect(unsafe_code, reason = "vectors are read by pointers")]
    #[expect(clippy::needless_range_loop, reason = "what is unrolled into registers reads as the formula")]
    #[target_feature(enable = "avx512f")]
    unsafe fn add_terms<const V: usize, const IN_PLACE: bool>(
        &mut self,
        rows: Rows<'_>,
        panel: &[f32],
        depth: usize,
        alpha: f32,
        store: Store,
    ) {
        let scale = _mm512_set1_ps(alpha);
        let (rows, stride, panel) = (rows.values.as_ptr(), rows.stride, panel.as_ptr());
        for first in (0..depth).step_by(INNER) {
            let mut sums = [[_mm512_setzero_ps(); V]; ROWS];
            for term in first..depth.min(first + INNER) {
                // SAFETY: the caller's promises.
                unsafe {
                    let mut y = [_mm512_setzero_ps(); V];
                    for v in 0..V {
                        y[v] = _mm512_load_ps(panel.add((term * V + v) * LANES));
                    }
                    for row in 0..ROWS {
                        let at = if IN_PLACE { row * stride + term } else { term * ROWS + row };
                        let x = _mm512_set1_ps(*rows.add(at));
                        for v in 0..V {
                            sums[row][v] = _mm512_fmadd_ps(x, y[v], sums[row][v]);
                        }
                    }
                }
            }
            for row in 0..ROWS {
                for v in 0..V {
                    // SAFETY: a tile has eight rows of three vectors, each of them aligned.
                    unsafe {
                        let at = self.0[row].as_mut_ptr().add(v * LANES);
                        let value = match store {
                            Store::Set if first == 0 => _mm512_mul_ps(scale, sums[row][v]),
                            _ => _mm512_fmadd_ps(scale, sums[row][v], _mm512_load_ps(at)),
                        };
                        _mm512_store_ps(at, value);
                    }
                }
            }
        }
    }

    /// Takes an area of the destination.
    ///
    /// # Safety
    /// The processor has AVX-512, and the area is within the destination.
    #[expect(unsafe_code, reason = "vectors are read by pointers")]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn read(&mut self, from: &Destination<'_>, area: Area) {
        let Area { row, height, lane, width } = area;
        if from.along_rows {
            for (number, to) in self.0[..height].iter_mut().enumerate() {
                let from = from.values[(row + number) * from.stride + lane..].as_ptr();
                for v in 0..VECTORS {
                    let lanes = first_lanes(width.saturating_sub(v * LANES));
                    // SAFETY: the caller's promise; what is outside of the area is not read.
                    unsafe {
                        let values = _mm512_maskz_loadu_ps(lanes, from.wrapping_add(v * LANES));
                        _mm512_store_ps(to.as_mut_ptr().add(v * LANES), values);
                    }
                }
            }
            return;
        }
        let values = &from.values[lane * from.stride + row..];
        let stride = from.stride;
        let whole = if height == ROWS { width / LANES * LANES } else { 0 };
        for first in (0..whole).step_by(LANES) {
            for half in [0, 4] {
                // SAFETY: the caller's promise: sixteen lanes of eight rows.
                unsafe {
                    let columns = read_columns(values.as_ptr().add(first * stride + half), stride);
                    for (next, column) in columns.into_iter().enumerate() {
                        _mm512_store_ps(self.0[half + next].as_mut_ptr().add(first), column);
                    }
                }
            }
        }
        for lane in whole..width {
            for (row, to) in self.0[..height].iter_mut().enumerate() {
                to[lane] = values[lane * stride + row];
            }
        }
    }

    /// Gives the destination what the tile has of an area.
    ///
    /// # Safety
    /// The processor has AVX-512, the area is within the destination, and nothing else reads it at the same time.
    #[expect(unsafe_code, reason = "vectors are written by pointers")]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn write(&self, to: &mut Destination<'_>, area: Area) {
        let Area { row, height, lane, width } = area;
        if to.along_rows {
            for (number, from) in self.0[..height].iter().enumerate() {
                let to = to.values[(row + number) * to.stride + lane..].as_mut_ptr();
                for v in 0..VECTORS {
                    let lanes = first_lanes(width.saturating_sub(v * LANES));
                    // SAFETY: the caller's promise; what is outside of the area is not written.
                    unsafe {
                        let values = _mm512_load_ps(from.as_ptr().add(v * LANES));
                        _mm512_mask_storeu_ps(to.wrapping_add(v * LANES), lanes, values);
                    }
                }
            }
            return;
        }
        let stride = to.stride;
        let values = &mut to.values[lane * stride + row..];
        let whole = if height == ROWS { width / LANES * LANES } else { 0 };
        for first in (0..whole).step_by(LANES) {
            for half in [0, 4] {
                // SAFETY: the caller's promise: sixteen lanes of eight rows.
                unsafe {
                    let column = |next: usize| _mm512_load_ps(self.0[half + next].as_ptr().add(first));
                    let columns = [column(0), column(1), column(2), column(3)];
                    write_columns(values.as_mut_ptr().add(first * stride + half), stride, columns);
                }
            }
        }
        for lane in whole..width {
            for (row, from) in self.0[..height].iter().enumerate() {
                values[lane * stride + row] = from[lane];
            }
        }
    }
}
