//! Attention that a library computes in one call, as values.

mod layout;
mod shape;

pub use layout::FusedLayout;
pub use shape::{FusedPass, FusedShape};

use crate::launch::Pointer;

/// The arrays of a pass over packed sequences. Values are bf16, logarithms and sums fp32, lengths and offsets i32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FusedArrays {
    /// Queries, (tokens, heads * dim).
    pub q: Pointer,
    /// Keys, (tokens, kv heads * dim).
    pub k: Pointer,
    pub v: Pointer,
    /// The output, as queries.
    pub out: Pointer,
    /// Logarithms of the softmaxes' denominators, (tokens, heads).
    pub log_sum: Pointer,
    /// Tokens of each sequence of the shape, 0 for one that is not there.
    pub lengths: Pointer,
    /// Values before each sequence in the queries and, last, before the end: one more than sequences.
    pub query_offsets: Pointer,
    /// Values before each sequence in the keys and, last, before the end.
    pub key_offsets: Pointer,
    /// Values before each sequence in the logarithms and, last, before the end.
    pub sum_offsets: Pointer,
}

/// What a backward pass has besides. The last four are scratch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FusedGradients {
    /// The gradient of the output.
    pub dout: Pointer,
    /// The gradient of the queries.
    pub dq: Pointer,
    /// The gradient of the keys.
    pub dk: Pointer,
    /// The gradient of the values.
    pub dv: Pointer,
    /// Sums of output times gradient, fp32, (tokens, heads).
    pub dots: Pointer,
    /// Sums for `dq`, fp32, as queries; null in a deterministic pass.
    pub dq_sum: Pointer,
    /// The gradient of the keys by query head, bf16, as queries; null where each query head has its own keys.
    pub dk_heads: Pointer,
    /// The gradient of the values by query head, bf16, as queries; null where each query head has its own values.
    pub dv_heads: Pointer,
}

/// Causal attention, softmax(q kᵀ / sqrt(dim)) v within each sequence, or its gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FusedAttention {
    pub shape: FusedShape,
    pub pass: FusedPass,
    /// Tokens of the sequences together.
    pub tokens: usize,
    /// Pairs of a query and a key that it sees, for one head.
    pub pairs: u64,
    /// What every pass has.
    pub arrays: FusedArrays,
    /// What a backward pass has.
    pub gradients: FusedGradients,
    /// Workspace, of as many bytes as the library asks for.
    pub workspace: Pointer,
}

impl FusedAttention {
    /// Floating-point operations: two products forward, five backward, over the pairs that are not masked.
    pub fn flops(&self) -> u64 {
        let products = if self.pass == FusedPass::Forward { 2 } else { 5 };
        2 * products * self.pairs * (self.shape.heads * self.shape.dim) as u64
    }

    /// Bytes of the arrays, each read or written once; scratch is written and read.
    pub fn bytes(&self) -> u64 {
        let FusedShape { heads, kv_heads, dim, .. } = self.shape;
        let queries = 2 * heads * dim;
        let keys = 2 * kv_heads * dim;
        let sums = 4 * heads;
        let forward = 2 * queries + 2 * keys + sums;
        let of_token = match self.pass {
            FusedPass::Forward => forward,
            FusedPass::Backward | FusedPass::DeterministicBackward => {
                let summed = if self.pass.sums_dq() { 2 * 2 * queries } else { 0 };
                let by_head = if self.shape.shares_keys() { 2 * 2 * queries } else { 0 };
                forward + 2 * queries + 2 * keys + 2 * sums + summed + by_head
            }
        };
        (self.tokens * of_token) as u64
    }

    pub fn pointers_mut(&mut self) -> [&mut Pointer; 18] {
        let FusedArrays { q, k, v, out, log_sum, lengths, query_offsets, key_offsets, sum_offsets } = &mut self.arrays;
        let FusedGradients { dout, dq, dk, dv, dots, dq_sum, dk_heads, dv_heads } = &mut self.gradients;
        [
            q,
            k,
            v,
            out,
            log_sum,
            lengths,
            query_offsets,
            key_offsets,
            sum_offsets,
            dout,
            dq,
            dk,
            dv,
            dots,
            dq_sum,
            dk_heads,
            dv_heads,
            &mut self.workspace,
        ]
    }

    /// Name in a table.
    pub fn name(&self) -> &'static str {
        match self.pass {
            FusedPass::Forward => "attention by cuDNN, forward",
            FusedPass::Backward => "attention by cuDNN, backward",
            FusedPass::DeterministicBackward => "attention by cuDNN, backward, deterministic",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: FusedShape = FusedShape { sequences: 3, longest: 300, heads: 4, kv_heads: 2, dim: 64 };

    #[test]
    fn operations_are_those_of_unmasked_pairs_and_bytes_those_of_the_arrays() {
        let attention = |pass, kv_heads| FusedAttention {
            shape: FusedShape { kv_heads, ..SHAPE },
            pass,
            tokens: 10,
            pairs: 55,
            arrays: FusedArrays::default(),
            gradients: FusedGradients::default(),
            workspace: Pointer::NULL,
        };
        assert_eq!(attention(FusedPass::Forward, 2).flops(), 2 * 2 * 55 * 256);
        assert_eq!(attention(FusedPass::Backward, 2).flops(), 2 * 5 * 55 * 256);
        // Queries and output, keys and values, logarithms.
        assert_eq!(attention(FusedPass::Forward, 2).bytes(), 10 * (2 * 512 + 2 * 256 + 16));
        let back = 10 * (4 * 512 + 4 * 512 + 3 * 16);
        assert_eq!(attention(FusedPass::DeterministicBackward, 4).bytes(), back);
        assert_eq!(attention(FusedPass::Backward, 4).bytes(), back + 10 * 4 * 512);
    }
}
