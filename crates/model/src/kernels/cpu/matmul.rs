//! Matrix products on one thread, with checked views and the same bits on every CPU.
//!
//! Each element is one chain of fused multiply-adds in the order of the inner dimension, restarted every
//! [`INNER`] terms:
//!
//! ```text
//! s = 0;  s = fma(a[i, p], b[p, j], s) for each p of the block;  c = alpha s, or c = fma(alpha, s, c)
//! ```
//!
//! With AVX-512 [`wide`](super::wide) computes all but the smallest. Elsewhere they are left to `gemm`, whose tiled
//! kernels compute this chain for every vector width (verified in its source, version 0.19, and by the tests below):
//! the width decides how many chains run side by side, never how one of them is summed. The kernels of `gemm` for thin
//! and small products sum across lanes instead, or fuse in one tail and not in another; [`in_order`] computes those
//! products.

use gemm::{Parallelism, gemm};

use super::in_order::in_order;
use super::view::{INNER, Store, View};
#[cfg(target_arch = "x86_64")]
use super::wide;

/// Elements of a product up to which packing costs more than the product.
const FEW: usize = 32;

/// c = alpha a b, or c += alpha a b; c is row-major with rows `c_stride` apart.
///
/// # Panics
/// If the shapes disagree or exceed the slices, which is a bug in this crate.
pub(super) fn matmul(c: &mut [f32], c_stride: usize, a: View<'_>, b: View<'_>, alpha: f32, store: Store) {
    let m = a.rows;
    let n = b.columns;
    let inner = a.columns;
    assert_eq!(inner, b.rows, "inner dimensions of a product");
    assert!(m == 0 || n == 0 || (m - 1) * c_stride + n <= c.len(), "destination of a product");
    assert!(n <= c_stride || m <= 1, "rows of a destination overlap");
    assert!(a.end() <= a.data.len() && b.end() <= b.data.len(), "operands of a product");
    if m == 0 || n == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if inner > 0 && m * n > FEW && wide::is_supported() {
        return wide::product(c, c_stride, a, b, alpha, store);
    }
    without_wide(c, c_stride, a, b, alpha, store);
}

/// Whether products of any number of rows are as fast with a weight (out, in) that is stored row by row as with one
/// that is not.
pub fn reads_weights_by_rows() -> bool {
    #[cfg(target_arch = "x86_64")]
    return wide::is_supported();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// The product of operands that [`matmul`] has checked.
fn without_wide(c: &mut [f32], c_stride: usize, a: View<'_>, b: View<'_>, alpha: f32, store: Store) {
    let m = a.rows;
    let n = b.columns;
    let inner = a.columns;
    if inner == 0 && store == Store::Set {
        (0..m).for_each(|i| c[i * c_stride..][..n].fill(0.0));
    }
    for first in (0..inner).step_by(INNER) {
        let step = INNER.min(inner - first);
        let a = a.columns(first, step);
        let b = b.rows(first, step);
        let store = if first > 0 { Store::Add } else { store };
        if leaves_the_order(a, b) {
            in_order(c, c_stride, a, b, alpha, store);
        } else {
            tiled(c, c_stride, a, b, alpha, store);
        }
    }
}

/// Whether `gemm` 0.19 computes a product with other than its tiled kernels: `gevv` for up to two terms,
/// `gemv` for a single row or column, and dot products across lanes for small results of contiguous operands.
fn leaves_the_order(a: View<'_>, b: View<'_>) -> bool {
    let contiguous = a.column_stride == 1 && b.row_stride == 1;
    a.columns <= 2 || a.rows <= 1 || b.columns <= 1 || (contiguous && a.rows * b.columns <= 256)
}

/// The product by `gemm`'s tiled kernels.
fn tiled(c: &mut [f32], c_stride: usize, a: View<'_>, b: View<'_>, alpha: f32, store: Store) {
    // SAFETY: every element that gemm reads or writes lies within the slices, by the assertions of `matmul`; `c` is
    // borrowed exclusively, so it overlaps neither operand.
    #[expect(unsafe_code, reason = "gemm takes raw pointers")]
    unsafe {
        gemm(
            a.rows,
            b.columns,
            a.columns,
            c.as_mut_ptr(),
            1,
            c_stride as isize,
            store == Store::Add,
            a.data.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            1.0,
            alpha,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

// Elsewhere `gemm` may multiply and add in two steps.
#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The chain of the module's documentation, one element at a time.
    fn reference(c: &mut [f32], c_stride: usize, a: View<'_>, b: View<'_>, alpha: f32, store: Store) {
        for i in 0..a.rows {
            for j in 0..b.columns {
                let c = &mut c[i * c_stride + j];
                if store == Store::Set {
                    *c = 0.0;
                }
                for first in (0..a.columns).step_by(INNER) {
                    let mut sum = 0f32;
                    for p in first..a.columns.min(first + INNER) {
                        let x = a.data[i * a.row_stride + p * a.column_stride];
                        sum = x.mul_add(b.data[p * b.row_stride + j * b.column_stride], sum);
                    }
                    *c = if store == Store::Set && first == 0 { alpha * sum } else { alpha.mul_add(sum, *c) };
                }
            }
        }
    }

    /// Numbers of many sizes and both signs, so that every change of order shows in the last bits.
    fn values(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let exponent = (state >> 40) as i32 % 12 - 6;
            ((state >> 11) as f64 / (1u64 << 53) as f64 - 0.5) as f32 * (exponent as f32).exp2()
        };
        (0..count).map(|_| next()).collect()
    }

    fn check(sizes: [usize; 3], transposed: [bool; 2], alpha: f32, store: Store, seed: u64) {
        let [m, n, inner] = sizes;
        let view = |data, rows, columns, transposed: bool| {
            if transposed {
                View::rows_of(data, columns, rows, rows).t()
            } else {
                View::rows_of(data, rows, columns, columns)
            }
        };
        let a = values(m * inner, seed);
        let b = values(inner * n, seed + 1);
        let a = view(&a, m, inner, transposed[0]);
        let b = view(&b, inner, n, transposed[1]);
        let stride = n + seed as usize % 3;
        let mut found = values(m * stride, seed + 2);
        let mut expected = found.clone();
        let mut other = found.clone();
        matmul(&mut found, stride, a, b, alpha, store);
        // What a processor without AVX-512 takes.
        without_wide(&mut other, stride, a, b, alpha, store);
        reference(&mut expected, stride, a, b, alpha, store);
        let all = found.iter().zip(&expected).chain(other.iter().zip(&expected));
        for (at, (found, expected)) in all.enumerate() {
            assert_eq!(
                found.to_bits(),
                expected.to_bits(),
                "element {at} of {m} x {n} over {inner}: {found} is not {expected}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn a_product_is_one_chain_of_fused_additions_whatever_its_shape(
            m in 1usize..90, n in 1usize..90, inner in 0usize..70, transposed: [bool; 2], add: bool,
            alpha in prop::sample::select(vec![1.0f32, 0.125, 0.176_776_7]), seed in 0u64..1000,
        ) {
            let store = if add { Store::Add } else { Store::Set };
            check([m, n, inner], transposed, alpha, store, seed);
        }
    }

    #[test]
    fn products_that_gemm_has_other_kernels_for_are_the_same_chain() {
        for sizes in [[1, 70, 65], [70, 1, 65], [1, 1, 513], [16, 16, 300], [3, 5, 40], [40, 33, 2], [17, 90, 1]] {
            for transposed in [[false, false], [false, true], [true, false], [true, true]] {
                for store in [Store::Set, Store::Add] {
                    check(sizes, transposed, 0.3, store, 7);
                }
            }
        }
    }

    #[test]
    fn long_and_wide_products_are_cut_at_the_same_places() {
        // The last ones do not fit what is packed at a time.
        let cut = [[5, 300, 1025], [130, 70, 514], [66, 700, 600], [257, 40, 2049], [300, 300, 511]];
        for sizes in cut.into_iter().chain([[9, 1000, 600], [1000, 9, 600], [20, 130, 4100], [130, 20, 4100]]) {
            for transposed in [[false, false], [false, true], [true, false]] {
                check(sizes, transposed, 1.0, Store::Add, 3);
            }
        }
    }
}
