//! The arrays of a pass, and what the graphs call them.

use std::ffi::c_void;

use super::shape::{AttentionPass, AttentionShape};

/// The device's addresses of the arrays of a pass. Values are bf16, sums and logarithms fp32, lengths and offsets i32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttentionArrays {
    /// Queries, (tokens, heads * dim).
    pub q: u64,
    /// Keys, (tokens, kv heads * dim).
    pub k: u64,
    /// Values, as keys.
    pub v: u64,
    /// The output, as queries.
    pub out: u64,
    /// Logarithms of the softmaxes' denominators, (tokens, heads).
    pub log_sum: u64,
    /// Tokens of each sequence, 0 for one that is not there.
    pub lengths: u64,
    /// Values before each sequence in the queries, and before the end of the last.
    pub query_offsets: u64,
    /// The same of the keys.
    pub key_offsets: u64,
    /// The same of the logarithms.
    pub sum_offsets: u64,
    /// Of a backward pass.
    pub backward: BackwardArrays,
}

/// What a backward pass has besides; the last four are scratch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackwardArrays {
    /// The gradient of the output.
    pub dout: u64,
    /// The gradient of the queries.
    pub dq: u64,
    /// The gradient of the keys.
    pub dk: u64,
    /// The gradient of the values.
    pub dv: u64,
    /// Sums of output times gradient, fp32, (tokens, heads).
    pub dots: u64,
    /// Sums for `dq`, fp32, as queries; not in a deterministic pass.
    pub dq_sum: u64,
    /// The gradient of the keys by query head, bf16, as queries; not where each query head has its own keys.
    pub dk_heads: u64,
    /// The same of the values.
    pub dv_heads: u64,
}

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
    pub(super) fn of(shape: AttentionShape) -> Self {
        Self { scale: 1.0 / (shape.dim as f32).sqrt(), masked: f32::NEG_INFINITY, one: 1.0 }
    }

    /// Identifiers and addresses of everything that a pass reads and writes. They lead into this value as well.
    pub(super) fn pack(
        &self,
        shape: AttentionShape,
        pass: AttentionPass,
        of: &AttentionArrays,
    ) -> (Vec<i64>, Vec<*mut c_void>) {
        let number = |value: &f32| std::ptr::from_ref(value) as u64;
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
        if pass != AttentionPass::Forward {
            let back = &of.backward;
            pack.extend([(DOUT, back.dout), (DQ, back.dq), (DK, back.dk), (DV, back.dv), (DOTS, back.dots)]);
            pack.extend([DOUT, DQ].map(|id| (OFFSETS + id, of.query_offsets)));
            pack.extend([DK, DV].map(|id| (OFFSETS + id, of.key_offsets)));
            pack.push((ONE, number(&self.one)));
            if pass.sums_dq() {
                pack.push((DQ_SUM, back.dq_sum));
            }
            if shape.shares_keys() {
                pack.extend([(DK_HEADS, back.dk_heads), (DV_HEADS, back.dv_heads)]);
            }
        }
        pack.into_iter().map(|(id, at)| (id, at as *mut c_void)).unzip()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_pass_names_each_array_once_and_gives_scratch_only_where_it_is_used() {
        let shared = AttentionShape { sequences: 2, longest: 256, heads: 4, kv_heads: 2, dim: 64 };
        let own = AttentionShape { kv_heads: 4, ..shared };
        let of = |shape, pass| {
            let (ids, at) = Numbers::of(shape).pack(shape, pass, &AttentionArrays::default());
            assert_eq!(ids.len(), at.len());
            let distinct: BTreeSet<i64> = ids.iter().copied().collect();
            assert_eq!(distinct.len(), ids.len());
            distinct
        };
        let backward = of(shared, AttentionPass::Backward);
        assert!(of(shared, AttentionPass::Forward).is_subset(&backward));
        let without = |set: &BTreeSet<i64>| backward.difference(set).copied().collect::<Vec<_>>();
        assert_eq!(without(&of(own, AttentionPass::Backward)), [DK_HEADS, DV_HEADS]);
        assert_eq!(without(&of(shared, AttentionPass::DeterministicBackward)), [DQ_SUM]);
    }
}
