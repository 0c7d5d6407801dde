//! The two sides of a product in the order in which a tile reads them.

use std::arch::x86_64::{_mm256_loadu_ps, _mm256_storeu_ps, _mm512_maskz_loadu_ps, _mm512_store_ps};

use super::super::view::View;
use super::ROWS;
use super::vectors::{LANES, first_lanes, read_columns};

/// For each term the values of `vectors` vectors of lanes; zeros beyond the last lane.
///
/// # Safety
/// The processor has AVX-512, every element of the view is within its slice, and `to` has room and is aligned.
#[expect(unsafe_code, reason = "vectors are read and written by pointers")]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn pack_lanes(to: &mut [f32], lanes: View<'_>, first: usize, vectors: usize) {
    let depth = lanes.rows;
    let step = vectors * LANES;
    for vector in 0..vectors {
        let lane = first + vector * LANES;
        let width = LANES.min(lanes.columns - lane);
        let from = &lanes.data[lane * lanes.column_stride..];
        let to = &mut to[vector * LANES..];
        if lanes.column_stride == 1 {
            for term in 0..depth {
                // SAFETY: the caller's promises; lanes beyond the last are not read.
                unsafe {
                    let from = from.as_ptr().add(term * lanes.row_stride);
                    let values = _mm512_maskz_loadu_ps(first_lanes(width), from);
                    _mm512_store_ps(to.as_mut_ptr().add(term * step), values);
                }
            }
            continue;
        }
        let whole = if lanes.row_stride == 1 && width == LANES { depth / 4 * 4 } else { 0 };
        for term in (0..whole).step_by(4) {
            // SAFETY: the caller's promises: four terms of sixteen lanes.
            unsafe {
                let columns = read_columns(from.as_ptr().add(term), lanes.column_stride);
                for (next, values) in columns.into_iter().enumerate() {
                    _mm512_store_ps(to.as_mut_ptr().add((term + next) * step), values);
                }
            }
        }
        for term in whole..depth {
            for (lane, to) in to[term * step..][..LANES].iter_mut().enumerate() {
                let at = term * lanes.row_stride + lane * lanes.column_stride;
                *to = if lane < width { from[at] } else { 0.0 };
            }
        }
    }
}

/// For each term the values of eight rows; zeros beyond the last row.
///
/// # Safety
/// The processor has AVX-512, and every element of the view is within its slice.
#[expect(unsafe_code, reason = "vectors are read by pointers")]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn pack_rows(to: &mut [f32], rows: View<'_>, first: usize, height: usize) {
    let from = &rows.data[first * rows.row_stride..];
    for (term, to) in to.as_chunks_mut::<ROWS>().0[..rows.columns].iter_mut().enumerate() {
        let at = term * rows.column_stride;
        if rows.row_stride == 1 && height == ROWS {
            // SAFETY: the caller's promises: eight rows of this term.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), _mm256_loadu_ps(from.as_ptr().add(at))) };
            continue;
        }
        for (row, to) in to.iter_mut().enumerate() {
            *to = if row < height { from[at + row * rows.row_stride] } else { 0.0 };
        }
    }
}
