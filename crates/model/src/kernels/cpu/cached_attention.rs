//! Attention of new tokens over cached keys and values.
//!
//! A row's scores are computed key by key and summed in the order of the keys, so its bits depend on its sequence
//! alone: not on the other rows, nor on how many of its own tokens are in the same call. They are the bits of
//! attention in training (`attention.rs`): each sum is the chain of fused multiply-adds of its products (`matmul.rs`).

use multiversion::multiversion;

use super::attention::softmax_of;
use super::view::INNER;
use super::{Cpu, Matrix};
use crate::error::Result;
use crate::kernels::{CachedAttention, HeadShape};

/// Keys of a block are scored side by side, and capacities are whole blocks.
const BLOCK: usize = 32;

/// Keys and values of one sequence in one layer. Keys are stored as (kv_heads, dim, capacity), so that a block of them
/// is scored in vectors without sums across lanes; values as (kv_heads, capacity, dim), so that they add up in vectors.
#[derive(Debug, Default)]
pub struct Cache {
    keys: Vec<f32>,
    values: Vec<f32>,
    length: usize,
    capacity: usize,
}

impl Cache {
    /// Makes room for `more` tokens by doubling, so that each token is moved a constant number of times.
    fn reserve(&mut self, more: usize, shape: HeadShape) {
        let needed = self.length + more;
        if needed <= self.capacity {
            return;
        }
        *self = self.copied(self.length, needed.max(2 * self.capacity), shape);
    }

    /// The first `length` tokens, with room for `capacity`, which is rounded up to whole blocks.
    fn copied(&self, length: usize, capacity: usize, shape: HeadShape) -> Self {
        let capacity = capacity.next_multiple_of(BLOCK);
        let copied = |old: &[f32], runs: usize, width: usize| {
            let mut new = vec![0.0; runs * capacity * width];
            for run in 0..runs {
                let kept = &old[run * self.capacity * width..][..length * width];
                new[run * capacity * width..][..kept.len()].copy_from_slice(kept);
            }
            new
        };
        Self {
            keys: copied(&self.keys, shape.kv_heads * shape.dim, 1),
            values: copied(&self.values, shape.kv_heads, shape.dim),
            length,
            capacity,
        }
    }

    fn append(&mut self, k: &[f32], v: &[f32], shape: HeadShape) {
        for (place, &k) in self.keys[self.length..].iter_mut().step_by(self.capacity).zip(k) {
            *place = k;
        }
        for (head, v) in v.chunks_exact(shape.dim).enumerate() {
            self.values[(head * self.capacity + self.length) * shape.dim..][..shape.dim].copy_from_slice(v);
        }
        self.length += 1;
    }
}

impl CachedAttention for Cpu {
    type Cache = Cache;

    fn new_cache(&self, _shape: HeadShape) -> Result<Cache> {
        Ok(Cache::default())
    }

    fn prefix(&self, of: &Cache, tokens: usize, shape: HeadShape) -> Result<Cache> {
        // A sequence grows by tokens of its own at once.
        Ok(of.copied(tokens, tokens + 1, shape))
    }

    fn attend(
        &self,
        q: &Matrix,
        k: &Matrix,
        v: &Matrix,
        shape: HeadShape,
        rows: &[usize],
        caches: &mut [&mut Cache],
    ) -> Result<Matrix> {
        let mut out = Matrix::uninitialized(q.rows(), q.width());
        let longest = rows.iter().zip(caches.iter()).map(|(rows, cache)| cache.length + rows).max().unwrap_or(0);
        let mut scores = Matrix::uninitialized(1, longest.next_multiple_of(BLOCK));
        let mut row = 0;
        for (&count, cache) in rows.iter().zip(caches) {
            cache.reserve(count, shape);
            for row in row..row + count {
                cache.append(k.row(row), v.row(row), shape);
                attend_row(out.row_mut(row), q.row(row), cache, shape, &mut scores);
            }
            row += count;
        }
        Ok(out)
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn attend_row(out: &mut [f32], q: &[f32], cache: &Cache, shape: HeadShape, scores: &mut [f32]) {
    let HeadShape { dim, .. } = shape;
    let per_kv = shape.heads / shape.kv_heads;
    let blocks = cache.length.next_multiple_of(BLOCK);
    for (head, (q, out)) in q.chunks_exact(dim).zip(out.chunks_exact_mut(dim)).enumerate() {
        let at = head / per_kv * cache.capacity * dim;
        let keys = &cache.keys[at..][..cache.capacity * dim];
        score_blocks(&mut scores[..blocks], q, keys, cache.capacity, shape.scale());
        let scores = &mut scores[..cache.length];
        softmax_of(scores);
        add_up(out, scores, &cache.values[at..][..cache.length * dim]);
    }
}

/// scores\[j\] = scale * q · key j for whole blocks of keys. Scores beyond the sequence's length come from stale values.
#[inline(always)]
fn score_blocks(scores: &mut [f32], q: &[f32], keys: &[f32], capacity: usize, scale: f32) {
    for (block, scores) in scores.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        let mut is_first = true;
        for (q, keys) in q.chunks(INNER).zip(keys.chunks(INNER * capacity)) {
            let mut sums = [0f32; BLOCK];
            for (&q, keys) in q.iter().zip(keys.chunks_exact(capacity)) {
                let keys = &keys.as_chunks::<BLOCK>().0[block];
                for (sum, key) in sums.iter_mut().zip(keys) {
                    *sum = q.mul_add(*key, *sum);
                }
            }
            for (score, sum) in scores.iter_mut().zip(sums) {
                *score = if is_first { scale * sum } else { scale.mul_add(sum, *score) };
            }
            is_first = false;
        }
    }
}

/// out = sum of p\[j\] value j, in the order of the keys; as many columns at a time as registers hold.
#[inline(always)]
fn add_up(out: &mut [f32], p: &[f32], values: &[f32]) {
    let dim = out.len();
    let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
    let rest_at = dim - rest.len();
    let mut is_first = true;
    for (p, values) in p.chunks(INNER).zip(values.chunks(INNER * dim)) {
        for (block, out) in blocks.iter_mut().enumerate() {
            let mut sums = [0f32; BLOCK];
            for (&p, value) in p.iter().zip(values.chunks_exact(dim)) {
                chain(&mut sums, p, &value.as_chunks::<BLOCK>().0[block]);
            }
            store(out, &sums, is_first);
        }
        let mut sums = [0f32; BLOCK];
        let sums = &mut sums[..rest.len()];
        for (&p, value) in p.iter().zip(values.chunks_exact(dim)) {
            chain(sums, p, &value[rest_at..]);
        }
        store(rest, sums, is_first);
        is_first = false;
    }
}

/// The next term of each sum.
#[inline(always)]
fn chain(sums: &mut [f32], p: f32, values: &[f32]) {
    for (sum, v) in sums.iter_mut().zip(values) {
        *sum = p.mul_add(*v, *sum);
    }
}

/// Sets what sums of [`INNER`] terms come to, or adds it.
#[inline(always)]
fn store(out: &mut [f32], sums: &[f32], is_first: bool) {
    for (out, sum) in out.iter_mut().zip(sums) {
        *out = if is_first { *sum } else { *out + *sum };
    }
}
