//! Activations on the CPU, and the list that reuses their memory.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

thread_local! {
    /// Buffers of dropped matrices. A training step needs the same sizes repeatedly; reusing them saves the
    /// allocator's page faults and the zeroing of some hundred MB a step.
    static FREE: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// Most buffers to keep: more than one micro-batch of a deep model uses would be wasted.
const MAX_FREE: usize = 1024;

/// A row-major f32 matrix.
#[derive(Debug)]
pub struct Matrix {
    /// At least rows * width values; the rest is left from earlier use.
    buffer: Vec<f32>,
    rows: usize,
    width: usize,
}

impl Matrix {
    /// A matrix with leftover values, which must be written before they are read.
    pub(super) fn uninitialized(rows: usize, width: usize) -> Self {
        let length = rows * width;
        let recycled = FREE.with_borrow_mut(|free| {
            // The smallest that fits, unless it is so large that a small matrix would waste it.
            let fits = |b: &Vec<f32>| b.len() >= length && b.len() / 4 <= length;
            let best = free.iter().enumerate().filter(|(_, b)| fits(b)).min_by_key(|(_, b)| b.len());
            if let Some((at, _)) = best {
                return Some(free.swap_remove(at));
            }
            // One that a shorter batch has left for the same purpose makes room: otherwise each batch that is longer
            // than all before it would add its activations to those that are kept.
            let is_outgrown = |b: &Vec<f32>| b.len() < length && b.len() >= length / 2;
            let outgrown = free.iter().enumerate().filter(|(_, b)| is_outgrown(b)).min_by_key(|(_, b)| b.len());
            if let Some((at, _)) = outgrown {
                free.swap_remove(at);
            }
            None
        });
        Self { buffer: recycled.unwrap_or_else(|| vec![0.0; length]), rows, width }
    }

    /// A matrix of zeros.
    pub(super) fn zeros(rows: usize, width: usize) -> Self {
        let mut matrix = Self::uninitialized(rows, width);
        matrix.fill(0.0);
        matrix
    }

    /// A copy of `values`.
    pub(super) fn copy_of(values: &[f32], rows: usize, width: usize) -> Self {
        let mut matrix = Self::uninitialized(rows, width);
        matrix.copy_from_slice(values);
        matrix
    }

    /// Number of rows, the outer dimension.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Values of a row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self[row * self.width..][..self.width]
    }

    /// One row, to be written.
    pub(super) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        let width = self.width;
        &mut self[row * width..][..width]
    }
}

impl Clone for Matrix {
    fn clone(&self) -> Self {
        Self::copy_of(self, self.rows, self.width)
    }
}

impl Deref for Matrix {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.buffer[..self.rows * self.width]
    }
}

impl DerefMut for Matrix {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.buffer[..self.rows * self.width]
    }
}

impl Drop for Matrix {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        // A thread that is ending no longer has a list: the buffer is freed.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < MAX_FREE && !buffer.is_empty() {
                free.push(buffer);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_matrix_lends_its_memory_to_the_next_of_its_size() {
        let address = Matrix::zeros(10, 7).as_ptr();
        assert_eq!(Matrix::uninitialized(7, 9).as_ptr(), address);
    }

    #[test]
    fn matrices_that_grow_leave_no_shorter_ones_behind() {
        for rows in 100..200 {
            let _held = [Matrix::zeros(rows, 8), Matrix::zeros(rows, 8), Matrix::zeros(rows, 24)];
        }
        let kept = FREE.with_borrow(|free| free.iter().map(Vec::len).sum::<usize>());
        // A narrow one may take the place of a wide one, which is then made anew: twice as much at most.
        assert!(kept <= 2 * 200 * (8 + 8 + 24), "{kept}");
    }

    #[test]
    fn zeros_are_zeros_in_recycled_memory() {
        Matrix::zeros(4, 4).fill(3.0);
        assert!(Matrix::zeros(2, 8).iter().all(|&x| x == 0.0));
    }
}
