//! Attention of new tokens over cached keys and values.

use candle_core::{D, Tensor};

use super::Portable;
use super::attention::{heads, join, repeat, scores};
use crate::error::Result;
use crate::kernels::{CachedAttention, HeadShape};

/// Keys and values of one sequence in one layer, (kv_heads, length, d) each; none before the first token.
#[derive(Clone, Debug, Default)]
pub struct Cache(Option<(Tensor, Tensor)>);

impl CachedAttention for Portable {
    type Cache = Cache;

    fn new_cache(&self, _shape: HeadShape) -> Result<Cache> {
        Ok(Cache::default())
    }

    fn prefix(&self, of: &Cache, tokens: usize, _shape: HeadShape) -> Result<Cache> {
        let Some((keys, values)) = of.0.as_ref().filter(|_| tokens > 0) else { return Ok(Cache::default()) };
        Ok(Cache(Some((keys.narrow(1, 0, tokens)?.copy()?, values.narrow(1, 0, tokens)?.copy()?))))
    }

    fn attend(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        shape: HeadShape,
        rows: &[usize],
        caches: &mut [&mut Cache],
    ) -> Result<Tensor> {
        let mut outs = Vec::with_capacity(rows.len());
        let mut row = 0;
        for (&count, cache) in rows.iter().zip(caches) {
            let new_keys = heads(k, row, count, shape)?;
            let new_values = heads(v, row, count, shape)?;
            let (keys, values) = match cache.0.take() {
                Some((keys, values)) => (Tensor::cat(&[keys, new_keys], 1)?, Tensor::cat(&[values, new_values], 1)?),
                None => (new_keys, new_values),
            };
            let q = heads(q, row, count, shape)?;
            let scores = scores(&q, &repeat(&keys, shape)?, shape, keys.dim(1)? - count)?;
            let largest = scores.max_keepdim(D::Minus1)?;
            let weights = scores.broadcast_sub(&largest)?.exp()?;
            let weights = weights.broadcast_div(&weights.sum_keepdim(D::Minus1)?)?.to_dtype(self.dtype)?;
            outs.push(join(&weights.matmul(&repeat(&values, shape)?)?)?);
            cache.0 = Some((keys, values));
            row += count;
        }
        Ok(Tensor::cat(&outs, 0)?)
    }
}
