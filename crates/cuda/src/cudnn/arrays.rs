//! The arrays of a pass, and what the graphs call them.

use std::ffi::c_void;

use evenkeel_kernels::{FusedAttention, FusedPass, FusedShape, Pointer};

/// Identifiers of tensors. Offsets have that of their tensor plus [`OFFSETS`].
pub(super) const Q: i64 = 1;
pub(super) const K: i64 = 2;
pub(super) const V: i64 = 3;
pub(super) const OUT: i64 = 4;
pub(super) const LOG_SUM: i64 = 5;
pub(super) const DOUT: i64 = 6;
pub(super) const DQ: i64 = 7;
pub(super) const DK: i64 = 8;
pub(super) const DV: i64 = 9;
pub(super) const DOTS: i64 = 10;
pub(super) const DQ_SUM: i64 = 11;
pub(super) const DK_HEADS: i64 = 12;
pub(super) const DV_HEADS: i64 = 13;
pub(super) const QUERY_LENGTHS: i64 = 20;
pub(super) const KEY_LENGTHS: i64 = 21;
pub(super) const SCALE: i64 = 30;
pub(super) const BEHIND: i64 = 31;
pub(super) const FUTURE: i64 = 32;
pub(super) const ONE: i64 = 33;
pub(super) const OFFSETS: i64 = 100;

/// What the host gives by value.
pub(super) struct Numbers {
    scale: f32,
    masked: f32,
    one: f32,
}

impl Numbers {
    pub(super) fn of(shape: FusedShape) -> Self {
        Self { scale: 1.0 / (shape.dim as f32).sqrt(), masked: f32::NEG_INFINITY, one: 1.0 }
    }

    /// Identifiers and addresses of everything that a pass reads and writes. They lead into this value as well.
    pub(super) fn pack(&self, attention: &FusedAttention) -> (Vec<i64>, Vec<*mut c_void>) {
        let number = |value: &f32| Pointer(std::ptr::from_ref(value) as u64);
        let of = &attention.arrays;
        let mut pack = vec![
            (Q, of.q),
            (K, of.k),
            (V, of.v),
            (OUT, of.out),
            (LOG_SUM, of.log_sum),
            (QUERY_LENGTHS, of.lengths),
            (KEY_LENGTHS, of.lengths),
            (SCALE, number(&self.scale)),
            (BEHIND, number(&self.masked)),
            (FUTURE, number(&self.masked)),
        ];
        pack.extend([Q, OUT].map(|id| (OFFSETS + id, of.query_offsets)));
        pack.extend([K, V].map(|id| (OFFSETS + id, of.key_offsets)));
        pack.push((OFFSETS + LOG_SUM, of.sum_offsets));
        if attention.pass != FusedPass::Forward {
            let back = &attention.gradients;
            pack.extend([(DOUT, back.dout), (DQ, back.dq), (DK, back.dk), (DV, back.dv), (DOTS, back.dots)]);
            pack.extend([DOUT, DQ].map(|id| (OFFSETS + id, of.query_offsets)));
            pack.extend([DK, DV].map(|id| (OFFSETS + id, of.key_offsets)));
            pack.push((ONE, number(&self.one)));
            if attention.pass.sums_dq() {
                pack.push((DQ_SUM, back.dq_sum));
            }
            if attention.shape.shares_keys() {
                pack.extend([(DK_HEADS, back.dk_heads), (DV_HEADS, back.dv_heads)]);
            }
        }
        pack.into_iter().map(|(id, Pointer(at))| (id, at as *mut c_void)).unzip()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use evenkeel_kernels::{FusedArrays, FusedGradients};

    use super::*;

    #[test]
    fn a_pass_names_each_array_once_and_gives_scratch_only_where_it_is_used() {
        let shared = FusedShape { sequences: 2, longest: 256, heads: 4, kv_heads: 2, dim: 64 };
        let own = FusedShape { kv_heads: 4, ..shared };
        let bound_arrays = |shape, pass| {
            let arrays = FusedArrays::default();
            let gradients = FusedGradients::default();
            let workspace = Pointer::NULL;
            let attention = FusedAttention { shape, pass, tokens: 1, pairs: 1, arrays, gradients, workspace };
            let (ids, at) = Numbers::of(shape).pack(&attention);
            assert_eq!(ids.len(), at.len());
            let distinct: BTreeSet<i64> = ids.iter().copied().collect();
            assert_eq!(distinct.len(), ids.len());
            distinct
        };
        let backward = bound_arrays(shared, FusedPass::Backward);
        assert!(bound_arrays(shared, FusedPass::Forward).is_subset(&backward));
        let without = |set: &BTreeSet<i64>| backward.difference(set).copied().collect::<Vec<_>>();
        assert_eq!(without(&bound_arrays(own, FusedPass::Backward)), [DK_HEADS, DV_HEADS]);
        assert_eq!(without(&bound_arrays(shared, FusedPass::DeterministicBackward)), [DQ_SUM]);
    }
}
