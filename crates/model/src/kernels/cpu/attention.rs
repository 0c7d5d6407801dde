//! Causal attention over packed sequences, one block of queries at a time against the keys that it may see. Only the
//! logarithm of each softmax's denominator is kept, so memory is linear in length; the backward pass recomputes the
//! probabilities (as FlashAttention does, arXiv 2205.14135).
//!
//! A segment that continues a prefix has the bits of a sequence of its own. The gradients of a prefix's keys and values
//! are summed over its own queries and then over those of the segments that continue it, in their order.

use multiversion::multiversion;

use super::matmul::matmul;
use super::simd::{dot, exp, lane_sum, max};
use super::view::{Store, View};
use super::{Cpu, Matrix};
use crate::error::Result;
use crate::kernels::{Attention, AttentionForward, HeadShape, chunks};
use crate::segment::{RowSpan, Segment};

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
        segments: &[Segment],
    ) -> Result<(Matrix, Matrix)> {
        let mut out = Matrix::uninitialized(q.rows(), q.width());
        let mut log_sum = Matrix::uninitialized(q.rows(), shape.heads);
        let width = q.width();
        let mut all_keys = Seen::new(k, segments);
        let mut all_values = Seen::new(v, segments);
        for segment in segments {
            let k = all_keys.by(segment);
            let v = all_values.by(segment);
            for block in blocks(segment) {
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
                    let out = &mut out[block.row * width + head * shape.dim..];
                    matmul(
                        out,
                        width,
                        View::rows_of(&scores, block.queries, block.keys, block.keys),
                        kv_view(v, shape, head, block),
                        1.0,
                        Store::Set,
                    );
                }
            }
        }
        Ok((out, log_sum))
    }

    fn attention_backward(
        &self,
        dout: &Matrix,
        forward: AttentionForward<'_, Matrix>,
        shape: HeadShape,
        segments: &[Segment],
    ) -> Result<[Matrix; 3]> {
        let AttentionForward { q, k, v, out, log_sum } = forward;
        let width = q.width();
        let kv_width = k.width();
        let mut dq = Matrix::uninitialized(q.rows(), width);
        let mut dk = Matrix::zeros(k.rows(), kv_width);
        let mut dv = Matrix::zeros(v.rows(), kv_width);
        let mut all_keys = Seen::new(k, segments);
        let mut all_values = Seen::new(v, segments);
        for segment in segments {
            let k = all_keys.by(segment);
            let v = all_values.by(segment);
            for block in blocks(segment) {
                let QueryBlock { row, queries, keys, .. } = block;
                let mut scores = Matrix::uninitialized(queries, keys);
                let mut dscores = Matrix::uninitialized(queries, keys);
                for head in 0..shape.heads {
                    let at = row * width + head * shape.dim;
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
                    let prefix = segment.prefix;
                    for (first, rows, seen) in
                        [(prefix.first, 0..prefix.length), (segment.rows.first, prefix.length..keys)]
                            .map(|(first, keys)| (first, keys.len(), keys.start))
                    {
                        let at = first * kv_width + kv_head(shape, head) * shape.dim;
                        let probabilities = probabilities.t().rows(seen, rows);
                        matmul(&mut dv[at..], kv_width, probabilities, dout_view, 1.0, Store::Add);
                        let dscores = dscores.t().rows(seen, rows);
                        matmul(&mut dk[at..], kv_width, dscores, query_view, shape.scale(), Store::Add);
                    }
                    matmul(&mut dq[at..], width, dscores, kv_view(k, shape, head, block), shape.scale(), Store::Set);
                }
            }
        }
        Ok([dq, dk, dv])
    }
}

/// A block of queries and the keys that it may see.
#[derive(Clone, Copy)]
struct QueryBlock {
    /// First row of the block.
    row: usize,
    /// Keys before the first query: it sees offset + 1.
    offset: usize,
    queries: usize,
    keys: usize,
}

fn blocks(segment: &Segment) -> impl Iterator<Item = QueryBlock> {
    let Segment { rows, prefix } = *segment;
    chunks(rows.length, BLOCK).map(move |(first, queries)| {
        let offset = prefix.length + first;
        QueryBlock { row: rows.first + first, offset, queries, keys: offset + queries }
    })
}

/// Keys or values as segments see them: those of the prefix, and then the segment's own, in consecutive rows. So a sum
/// over keys is the chain that it is in a sequence of its own.
struct Seen<'a> {
    all: &'a Matrix,
    /// The prefix that was last continued, and a segment's own rows after it.
    joined: Option<Matrix>,
    prefix: RowSpan,
}

impl<'a> Seen<'a> {
    fn new(all: &'a Matrix, segments: &[Segment]) -> Self {
        let continued = segments.iter().filter(|segment| segment.prefix.length > 0);
        let joined = continued.map(Segment::keys).max().map(|keys| Matrix::uninitialized(keys, all.width()));
        Self { all, joined, prefix: RowSpan::default() }
    }

    /// From the first key that the segment sees.
    fn by(&mut self, segment: &Segment) -> &[f32] {
        let Segment { rows, prefix } = *segment;
        let width = self.all.width();
        let values_of = |rows: RowSpan| &self.all[rows.first * width..][..rows.length * width];
        let Some(joined) = self.joined.as_mut().filter(|_| prefix.length > 0) else {
            return &self.all[rows.first * width..];
        };
        if self.prefix != prefix {
            joined[..prefix.length * width].copy_from_slice(values_of(prefix));
            self.prefix = prefix;
        }
        joined[prefix.length * width..][..rows.length * width].copy_from_slice(values_of(rows));
        joined
    }
}

fn kv_head(shape: HeadShape, head: usize) -> usize {
    head / (shape.heads / shape.kv_heads)
}

/// The keys or values that a block's queries of one head see, (keys, dim), of those that the segment sees.
fn kv_view(seen: &[f32], shape: HeadShape, head: usize, block: QueryBlock) -> View<'_> {
    let at = kv_head(shape, head) * shape.dim;
    View::rows_of(&seen[at..], block.keys, shape.dim, shape.kv_heads * shape.dim)
}

/// scores = q kᵀ / sqrt(d) for one block and head.
fn score(scores: &mut Matrix, q: &Matrix, keys: &[f32], shape: HeadShape, head: usize, block: QueryBlock) {
    let q_at = block.row * q.width() + head * shape.dim;
    let queries = View::rows_of(&q[q_at..], block.queries, shape.dim, q.width());
    matmul(scores, block.keys, queries, kv_view(keys, shape, head, block).t(), shape.scale(), Store::Set);
}

/// Row i becomes the softmax of its first offset + i + 1 scores, followed by zeros.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn softmax(scores: &mut [f32], keys: usize, offset: usize, log_sum: &mut [f32], heads: usize) {
    for (i, row) in scores.chunks_exact_mut(keys).enumerate() {
        let (seen, unseen) = row.split_at_mut(offset + i + 1);
        let (largest, sum) = softmax_of(seen);
        unseen.fill(0.0);
        log_sum[i * heads] = largest + libm::logf(sum);
    }
}

/// Scores become their softmax. Returns the largest score m, and the sum of e^(score - m).
#[inline(always)]
pub(super) fn softmax_of(scores: &mut [f32]) -> (f32, f32) {
    let largest = max(scores);
    for x in scores.iter_mut() {
        *x = exp(*x - largest);
    }
    let sum = lane_sum(scores.len(), |j| scores[j]);
    let inverse = 1.0 / sum;
    for x in scores.iter_mut() {
        *x *= inverse;
    }
    (largest, sum)
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
