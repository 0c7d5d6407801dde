//! Small and thin matrix products, in the order of summation that [`super::matmul`] promises.

use multiversion::multiversion;

use super::view::{Store, View};

/// Columns whose chains run side by side: enough to hide the latency of a fused multiply-add.
const COLUMNS: usize = 32;

/// c = alpha a b, or c += alpha a b, each element one chain of fused multiply-adds from the first term to the last.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn in_order(c: &mut [f32], c_stride: usize, a: View<'_>, b: View<'_>, alpha: f32, store: Store) {
    for i in 0..a.rows {
        let row = &mut c[i * c_stride..][..b.columns];
        for (block, c) in row.chunks_mut(COLUMNS).enumerate() {
            let first = block * COLUMNS;
            let mut sums = [0f32; COLUMNS];
            for p in 0..a.columns {
                let x = a.data[i * a.row_stride + p * a.column_stride];
                let at = p * b.row_stride + first * b.column_stride;
                if b.column_stride == 1 {
                    for (sum, &y) in sums.iter_mut().zip(&b.data[at..][..c.len()]) {
                        *sum = x.mul_add(y, *sum);
                    }
                } else {
                    for (j, sum) in sums[..c.len()].iter_mut().enumerate() {
                        *sum = x.mul_add(b.data[at + j * b.column_stride], *sum);
                    }
                }
            }
            for (c, sum) in c.iter_mut().zip(sums) {
                *c = if store == Store::Add { alpha.mul_add(sum, *c) } else { alpha * sum };
            }
        }
    }
}
