//! Weights as products read them: in fp32, where they are; in bf16, widened block by block.
//!
//! Widening is exact, and a block ends where products restart their sums in any case, so that a weight in bf16 gives
//! the bits of the same values in fp32.

use std::cell::RefCell;

use candle_core::{CpuStorage, Storage, Tensor};
use half::bf16;
use multiversion::multiversion;

use super::refused;
use super::view::{INNER, View};
use crate::error::Result;

/// Values that are widened at a time, about as many as half of a second-level cache holds; a block has [`INNER`] rows
/// at least.
const WIDENED: usize = 1 << 18;

thread_local! {
    /// The widened block, whose memory is used again.
    static BLOCK: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Calls back with the rows of a matrix (rows, columns), in blocks of consecutive rows and with the first of each. A
/// matrix in fp32 is one block, in any strides; one in bf16 is stored row by row.
pub(super) fn with_rows(weight: &Tensor, mut f: impl FnMut(usize, View<'_>)) -> Result<()> {
    let (rows, columns) = weight.dims2()?;
    let (storage, layout) = weight.storage_and_layout();
    match (&*storage, layout.contiguous_offsets()) {
        (Storage::Cpu(CpuStorage::F32(values)), _) => f(0, View::of_matrix(&values[layout.start_offset()..], weight)),
        (Storage::Cpu(CpuStorage::BF16(values)), Some((first, end))) => BLOCK.with_borrow_mut(|block| {
            let at_once = (WIDENED / columns.max(1) / INNER).max(1) * INNER;
            for (number, narrow) in values[first..end].chunks((at_once * columns).max(1)).enumerate() {
                block.resize(block.len().max(narrow.len()), 0.0);
                let wide = &mut block[..narrow.len()];
                widen(narrow, wide);
                let first = number * at_once;
                f(first, View::rows_of(wide, at_once.min(rows - first), columns, columns));
            }
        }),
        _ => return Err(refused(weight, "F32, or BF16 row by row, on a CPU")),
    }
    Ok(())
}

/// Copies rows of a table, each to where it is to be.
pub(super) fn copy_rows<'a>(table: &Tensor, rows: impl Iterator<Item = (usize, &'a mut [f32])>) -> Result<()> {
    let (_, width) = table.dims2()?;
    let (storage, layout) = table.storage_and_layout();
    match (&*storage, layout.contiguous_offsets()) {
        (Storage::Cpu(CpuStorage::F32(values)), Some((first, _))) => {
            rows.for_each(|(row, to)| to.copy_from_slice(&values[first + row * width..][..width]));
        }
        (Storage::Cpu(CpuStorage::BF16(values)), Some((first, _))) => {
            rows.for_each(|(row, to)| widen(&values[first + row * width..][..width], to));
        }
        _ => return Err(refused(table, "F32 or BF16, row by row, on a CPU")),
    }
    Ok(())
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn widen(narrow: &[bf16], wide: &mut [f32]) {
    for (to, from) in wide.iter_mut().zip(narrow) {
        *to = f32::from_bits(u32::from(from.to_bits()) << 16);
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;
    use crate::kernels::cpu::{Cpu, Matrix};
    use crate::kernels::{Coefficients, Head, HeadGradients, HeadInput, Linear, Rows};

    /// Values of bf16 without a pattern, from -1 to 1.
    fn values(count: usize, seed: usize) -> Vec<f32> {
        let number = |at: usize| (at.wrapping_mul(2_654_435_761).wrapping_add(seed * 97) >> 7) % 511;
        (0..count).map(|at| bf16::from_f32(number(at) as f32 / 255.0 - 1.0).to_f32()).collect()
    }

    fn matrix(rows: usize, width: usize, seed: usize) -> Matrix {
        Matrix::copy_of(&values(rows * width, seed), rows, width)
    }

    /// Equal weights in both types.
    fn weights(out: usize, input: usize) -> [Tensor; 2] {
        let wide = Tensor::from_vec(values(out * input, 3), (out, input), &Device::Cpu).unwrap();
        let narrow = wide.to_dtype(DType::BF16).unwrap();
        [wide, narrow]
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    #[test]
    fn products_with_a_weight_in_bf16_have_the_bits_of_the_same_values_in_fp32() {
        let cpu = Cpu::new().unwrap();
        // Among them more rows than a block has, blocks that are cut off, and single rows and columns.
        for (rows, out, input) in [(1, 1, 1), (3, 5, 7), (17, 1300, 520), (1, 2500, 300), (9, 513, 1), (2, 700, 1100)] {
            let [wide, narrow] = weights(out, input);
            let x = matrix(rows, input, 1);
            let dy = matrix(rows, out, 2);
            let add = matrix(rows, out, 4);
            for add in [None, Some(&add)] {
                let product = |weight: &Tensor| cpu.linear(&x, weight, None, add).unwrap();
                assert_eq!(bits(&product(&narrow)), bits(&product(&wide)), "{rows} {out} {input}");
            }
            for into in [false, true] {
                let into = || into.then(|| matrix(rows, input, 5));
                let gradient = |weight: &Tensor| cpu.linear_backward_input(&dy, weight, into()).unwrap();
                assert_eq!(bits(&gradient(&narrow)), bits(&gradient(&wide)), "{rows} {out} {input}");
            }
        }
    }

    #[test]
    fn so_have_the_head_and_the_embedding() {
        let cpu = Cpu::new().unwrap();
        let rows = 5;
        let vocabulary = 1700;
        let width = 240;
        let [wide, narrow] = weights(vocabulary, width);
        let hidden = matrix(rows, width, 1);
        let targets = [0, 3, 1699, 512, 511];
        let results = |weight: &Tensor, chunk_rows: usize| {
            let input = HeadInput { weight, adapter: None, targets: &targets, temperature: 0.7, chunk_rows };
            let (scores, kept) = cpu.head(&hidden, input).unwrap();
            let coefficients = Coefficients { logp: vec![0.5; rows], entropy: vec![-0.1; rows] };
            let none = HeadGradients { weight: None, b: None };
            let gradients = cpu.head_backward(&hidden, input, &scores, kept, &coefficients, none).unwrap();
            [bits(&scores.logp), bits(&scores.entropy), bits(&gradients.hidden)]
        };
        for chunk_rows in [2, 64] {
            assert_eq!(results(&narrow, chunk_rows), results(&wide, chunk_rows), "{chunk_rows}");
        }
        let ids = [3, 1699, 0, 3];
        assert_eq!(bits(&cpu.embed(&narrow, &ids).unwrap()), bits(&cpu.embed(&wide, &ids).unwrap()));
    }

    #[test]
    fn another_type_or_a_narrow_weight_by_columns_is_refused() {
        let [wide, narrow] = weights(4, 6);
        for weight in [wide.to_dtype(DType::F16).unwrap(), narrow.t().unwrap()] {
            let error = with_rows(&weight, |_, _| {}).unwrap_err().to_string();
            assert!(error.starts_with("tensor for the CPU kernels is "), "{error}");
        }
    }
}
