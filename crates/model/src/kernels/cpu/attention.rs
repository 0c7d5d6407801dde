//! Causal attention over packed sequences, one block of queries at a time against the keys that it may see. Only the
//! logarithm of each softmax's denominator is kept, so memory is linear in length; the backward pass recomputes the
//! probabilities (as FlashAttention does, arXiv 2205.14135).

use multiversion::multiversion;

use super::matmul::matmul;
use super::simd::{dot, exp, lane_sum, max};
use super::view::{Store, View};
use super::{Cpu, Matrix};
use crate::error::Result;
use crate::kernels::{Attention, AttentionForward, HeadShape, chunks};

/// Queries in a block: a block of scores over a few hundred keys stays in the second-level cache, and the half
/// block on the diagonal that is computed and thrown away is small.
const BLOCK: usize = 64;

impl Attention for Cpu {
    fn attention(
        &self,
        q: &Matrix,
        k: &Matrix,
        v: &Matrix,
        shape: HeadShape,
        starts: &[usize],
    ) -> Result<(Matrix, Matrix)> {
        let mut out = Matrix::uninitialized(q.rows(), q.width());
        let mut log_sum = Matrix::uninitialized(q.rows(), shape.heads);
        for block in blocks(starts) {
            let mut scores = Matrix::uninitialized(block.queries, block.keys);
            for head in 0..shape.heads {
                score(&mut scores, q, k, shape, head, block);
                softmax(
                    &mut scores,
                    block.keys,
                    block.offset,
                    &mut log_sum[block.row * shape.heads + head..],
                    shape.heads,
                );
                let width = q.width();
                let values = kv_view(v, shape, head, block);
                let out = &mut out[block.row * width + head * shape.dim..];
                matmul(
                    out,
                    width,
                    View::rows_of(&scores, block.queries, block.keys, block.keys),
                    values,
                    1.0,
                    Store::Set,
                );
            }
        }
        Ok((out, log_sum))
    }

    fn attention_backward(
        &self,
        dout: &Matrix,
        forward: AttentionForward<'_, Matrix>,
        shape: HeadShape,
        starts: &[usize],
    ) -> Result<[Matrix; 3]> {
        let AttentionForward { q, k, v, out, log_sum } = forward;
        let (width, kv_width) = (q.width(), k.width());
        let mut dq = Matrix::uninitialized(q.rows(), width);
        let (mut dk, mut dv) = (Matrix::zeros(k.rows(), kv_width), Matrix::zeros(v.rows(), kv_width));
        for block in blocks(starts) {
            let Block { row, first, queries, keys, .. } = block;
            let mut scores = Matrix::uninitialized(queries, keys);
            let mut dscores = Matrix::uninitialized(queries, keys);
            for head in 0..shape.heads {
                let at = row * width + head * shape.dim;
                let kv_at = first * kv_width + kv_head(shape, head) * shape.dim;
                score(&mut scores, q, k, shape, head, block);
                let dout_view = View::rows_of(&dout[at..], queries, shape.dim, width);
                matmul(&mut dscores, keys, dout_view, kv_view(v, shape, head, block).t(), 1.0, Store::Set);
                softmax_backward(
                    &mut scores,
                    &mut dscores,
                    SoftmaxRows {
                        keys,
                        offset: block.offset,
                        log_sum: &log_sum[row * shape.heads + head..],
                        heads: shape.heads,
                        dout: &dout[at..],
                        out: &out[at..],
                        width,
                        dim: shape.dim,
                    },
                );
                let probabilities = View::rows_of(&scores, queries, keys, keys);
                let dscores = View::rows_of(&dscores, queries, keys, keys);
                let query_view = View::rows_of(&q[at..], queries, shape.dim, width);
                matmul(&mut dv[kv_at..], kv_width, probabilities.t(), dout_view, 1.0, Store::Add);
                matmul(&mut dk[kv_at..], kv_width, dscores.t(), query_view, shape.scale(), Store::Add);
                matmul(&mut dq[at..], width, dscores, kv_view(k, shape, head, block), shape.scale(), Store::Set);
            }
        }
        Ok([dq, dk, dv])
    }
}

/// A block of queries and the keys that it may see.
#[derive(Clone, Copy)]
struct Block {
    /// First row of the sequence.
    first: usize,
    /// First row of the block.
    row: usize,
    /// The block's position in its sequence: its first query sees offset + 1 keys.
    offset: usize,
    queries: usize,
    keys: usize,
}

fn blocks(starts: &[usize]) -> impl Iterator<Item = Block> {
    starts.windows(2).flat_map(|ends| {
        let (first, length) = (ends[0], ends[1] - ends[0]);
        let block =
            move |(offset, queries)| Block { first, row: first + offset, offset, queries, keys: offset + queries };
        chunks(length, BLOCK).map(block)
    })
}

fn kv_head(shape: HeadShape, head: usize) -> usize {
    head / (shape.heads / shape.kv_heads)
}

/// The keys or values that a block's queries of one head see, (keys, dim).
fn kv_view(kv: &Matrix, shape: HeadShape, head: usize, block: Block) -> View<'_> {
    let at = block.first * kv.width() + kv_head(shape, head) * shape.dim;
    View::rows_of(&kv[at..], block.keys, shape.dim, kv.width())
}

/// scores = q kᵀ / sqrt(d) for one block and head.
fn score(scores: &mut Matrix, q: &Matrix, k: &Matrix, shape: HeadShape, head: usize, block: Block) {
    let q_at = block.row * q.width() + head * shape.dim;
    let queries = View::rows_of(&q[q_at..], block.queries, shape.dim, q.width());
    matmul(scores, block.keys, queries, kv_view(k, shape, head, block).t(), shape.scale(), Store::Set);
}

/// Row i becomes the softmax of its first offset + i + 1 scores, followed by zeros.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn softmax(scores: &mut [f32], keys: usize, offset: usize, log_sum: &mut [f32], heads: usize) {
    for (i, row) in scores.chunks_exact_mut(keys).enumerate() {
        let (seen, unseen) = row.split_at_mut(offset + i + 1);
        let largest = max(seen);
        for x in seen.iter_mut() {
            *x = exp(*x - largest);
        }
        let sum = lane_sum(seen.len(), |j| seen[j]);
        let inverse = 1.0 / sum;
        for x in seen.iter_mut() {
            *x *= inverse;
        }
        unseen.fill(0.0);
        log_sum[i * heads] = largest + libm::logf(sum);
    }
}

/// What the backward pass of the softmax needs for each row besides its scores.
struct SoftmaxRows<'a> {
    keys: usize,
    offset: usize,
    log_sum: &'a [f32],
    heads: usize,
    dout: &'a [f32],
    out: &'a [f32],
    width: usize,
    dim: usize,
}

/// Scores become probabilities p, their gradients dp become p (dp - sum p dp), where the sum is dout · out.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn softmax_backward(scores: &mut [f32], dscores: &mut [f32], rows: SoftmaxRows<'_>) {
    let SoftmaxRows { keys, offset, log_sum, heads, dout, out, width, dim } = rows;
    for (i, (row, drow)) in scores.chunks_exact_mut(keys).zip(dscores.chunks_exact_mut(keys)).enumerate() {
        let seen = offset + i + 1;
        let log_sum = log_sum[i * heads];
        let along = dot(&dout[i * width..][..dim], &out[i * width..][..dim]);
        for (p, dp) in row[..seen].iter_mut().zip(&mut drow[..seen]) {
            *p = exp(*p - log_sum);
            *dp = *p * (*dp - along);
        }
        row[seen..].fill(0.0);
        drow[seen..].fill(0.0);
    }
}
