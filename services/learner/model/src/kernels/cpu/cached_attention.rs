//! Attention of new tokens over cached keys and values.
//!
//! A row's scores are computed key by key and summed in the order of the keys, so its bits depend on its sequence
//! alone: not on the other rows, nor on how many of its own tokens came in the same call.

use multiversion::multiversion;

use super::simd::{add_scaled, dot, exp, lane_sum, max};
use super::{Cpu, Matrix};
use crate::error::Result;
use crate::kernels::{CachedAttention, HeadShape};

/// Keys and values of one sequence in one layer, each (kv_heads, capacity, dim): a head's keys lie side by side.
#[derive(Debug, Default)]
pub struct Cache {
    keys: Vec<f32>,
    values: Vec<f32>,
    length: usize,
    capacity: usize,
}

impl Cache {
    /// Makes room for `more` tokens, doubling, so that a token is moved a constant number of times.
    fn reserve(&mut self, more: usize, shape: HeadShape) {
        let needed = self.length + more;
        if needed <= self.capacity {
            return;
        }
        let capacity = needed.max(2 * self.capacity).next_multiple_of(32);
        for old in [&mut self.keys, &mut self.values] {
            let mut new = vec![0.0; shape.kv_heads * capacity * shape.dim];
            for head in 0..shape.kv_heads {
                let kept = &old[head * self.capacity * shape.dim..][..self.length * shape.dim];
                new[head * capacity * shape.dim..][..kept.len()].copy_from_slice(kept);
            }
            *old = new;
        }
        self.capacity = capacity;
    }

    fn append(&mut self, k: &[f32], v: &[f32], shape: HeadShape) {
        for head in 0..shape.kv_heads {
            let at = (head * self.capacity + self.length) * shape.dim;
            let from = head * shape.dim;
            self.keys[at..][..shape.dim].copy_from_slice(&k[from..][..shape.dim]);
            self.values[at..][..shape.dim].copy_from_slice(&v[from..][..shape.dim]);
        }
        self.length += 1;
    }
}

impl CachedAttention for Cpu {
    type Cache = Cache;

    fn new_cache(&self, _shape: HeadShape) -> Result<Cache> {
        Ok(Cache::default())
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
        let mut out = Matrix::stale(q.rows(), q.width());
        let longest = rows.iter().zip(caches.iter()).map(|(rows, cache)| cache.length + rows).max().unwrap_or(0);
        let mut scores = Matrix::stale(1, longest);
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

    fn truncate(&self, cache: &mut Cache, length: usize) -> Result<()> {
        cache.length = cache.length.min(length);
        Ok(())
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn attend_row(out: &mut [f32], q: &[f32], cache: &Cache, shape: HeadShape, scores: &mut [f32]) {
    let HeadShape { dim, .. } = shape;
    let per_kv = shape.heads / shape.kv_heads;
    let (scale, scores) = (shape.scale(), &mut scores[..cache.length]);
    for head in 0..shape.heads {
        let at = head / per_kv * cache.capacity * dim;
        let keys = &cache.keys[at..][..cache.length * dim];
        let values = &cache.values[at..][..cache.length * dim];
        let q = &q[head * dim..][..dim];
        for (score, key) in scores.iter_mut().zip(keys.chunks_exact(dim)) {
            *score = dot(q, key) * scale;
        }
        let largest = max(scores);
        for x in scores.iter_mut() {
            *x = exp(*x - largest);
        }
        let inverse = 1.0 / lane_sum(scores.len(), |j| scores[j]);
        let out = &mut out[head * dim..][..dim];
        out.fill(0.0);
        for (&p, value) in scores.iter().zip(values.chunks_exact(dim)) {
            add_scaled(out, p, value);
        }
        for x in out.iter_mut() {
            *x *= inverse;
        }
    }
}
