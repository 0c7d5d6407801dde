//! Causal attention as batched products over heads, for one segment and one block of queries at a time.

use candle_core::{D, DType, Device, Tensor};

use super::Portable;
use crate::error::Result;
use crate::kernels::{Attention, AttentionForward, HeadShape, chunks};
use crate::segment::Segment;

/// Queries in a block: bounds the scores of one product to heads * 512 * keys.
const BLOCK: usize = 512;

impl Attention for Portable {
    fn attention(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        shape: HeadShape,
        segments: &[Segment],
    ) -> Result<(Tensor, Tensor)> {
        let mut outs = Vec::new();
        let mut log_sums = Vec::new();
        for segment in segments.iter().filter(|segment| segment.rows.length > 0) {
            let k = seen(k, segment, shape)?;
            let v = seen(v, segment, shape)?;
            for (first, queries) in chunks(segment.rows.length, BLOCK) {
                let offset = segment.prefix.length + first;
                let keys = offset + queries;
                let q = heads(q, segment.rows.first + first, queries, shape)?;
                let scores = scores(&q, &k.narrow(1, 0, keys)?, shape, offset)?;
                let largest = scores.max_keepdim(D::Minus1)?;
                let weights = scores.broadcast_sub(&largest)?.exp()?;
                let sum = weights.sum_keepdim(D::Minus1)?;
                let weights = weights.broadcast_div(&sum)?.to_dtype(self.dtype)?;
                outs.push(join(&weights.matmul(&v.narrow(1, 0, keys)?.contiguous()?)?)?);
                log_sums.push((largest + sum.log()?)?.squeeze(D::Minus1)?.t()?.contiguous()?);
            }
        }
        Ok((Tensor::cat(&outs, 0)?, Tensor::cat(&log_sums, 0)?))
    }

    fn attention_backward(
        &self,
        dout: &Tensor,
        forward: AttentionForward<'_, Tensor>,
        shape: HeadShape,
        segments: &[Segment],
    ) -> Result<[Tensor; 3]> {
        let AttentionForward { q, k, v, out, log_sum } = forward;
        let mut dqs = Vec::new();
        let mut dks = SeenGradients::new(segments);
        let mut dvs = SeenGradients::new(segments);
        for (number, segment) in segments.iter().enumerate().filter(|(_, segment)| segment.rows.length > 0) {
            let k = seen(k, segment, shape)?;
            let v = seen(v, segment, shape)?;
            let mut dk = Tensor::zeros(k.shape(), DType::F32, &self.device)?;
            let mut dv = dk.clone();
            for (first, queries) in chunks(segment.rows.length, BLOCK) {
                let row = segment.rows.first + first;
                let offset = segment.prefix.length + first;
                let keys = offset + queries;
                let q = heads(q, row, queries, shape)?;
                let dout = heads(dout, row, queries, shape)?;
                let out = heads(out, row, queries, shape)?;
                let k = k.narrow(1, 0, keys)?.contiguous()?;
                let v = v.narrow(1, 0, keys)?.contiguous()?;
                let log_sum = log_sum.narrow(0, row, queries)?.t()?.unsqueeze(D::Minus1)?;
                let p = scores(&q, &k, shape, offset)?.broadcast_sub(&log_sum)?.exp()?;
                let along = (dout.to_dtype(DType::F32)? * out.to_dtype(DType::F32)?)?.sum_keepdim(D::Minus1)?;
                let dp = dout.matmul(&v.transpose(1, 2)?)?.to_dtype(DType::F32)?;
                let ds = ((&p * dp.broadcast_sub(&along)?)? * f64::from(shape.scale()))?.to_dtype(self.dtype)?;
                let p = p.to_dtype(self.dtype)?;
                dqs.push(join(&ds.matmul(&k)?)?);
                let rest = segment.keys() - keys;
                let widen =
                    |part: Tensor| -> Result<Tensor> { Ok(part.to_dtype(DType::F32)?.pad_with_zeros(1, 0, rest)?) };
                dk = (dk + widen(ds.transpose(1, 2)?.matmul(&q)?)?)?;
                dv = (dv + widen(p.transpose(1, 2)?.matmul(&dout)?)?)?;
            }
            dks.add(segments, number, dk)?;
            dvs.add(segments, number, dv)?;
        }
        let sums = |gradients: SeenGradients| -> Result<Tensor> {
            let of_segments = gradients.0.into_iter().flatten().map(|sum| self.sum_shared(&sum, shape));
            Ok(Tensor::cat(&of_segments.collect::<Result<Vec<_>>>()?, 0)?)
        };
        Ok([Tensor::cat(&dqs, 0)?, sums(dks)?, sums(dvs)?])
    }
}

/// The gradients of each segment's own keys or values, fp32 (heads, rows, d); none where it has no rows.
struct SeenGradients(Vec<Option<Tensor>>);

impl SeenGradients {
    fn new(segments: &[Segment]) -> Self {
        Self(vec![None; segments.len()])
    }

    /// Adds what a segment that has rows gives those that it sees.
    fn add(&mut self, segments: &[Segment], number: usize, seen: Tensor) -> Result<()> {
        let Segment { rows, prefix } = segments[number];
        if prefix.length > 0 {
            let of_prefix = seen.narrow(1, 0, prefix.length)?;
            let before = segments.iter().position(|segment| segment.rows == prefix).and_then(|at| self.0[at].as_mut());
            if let Some(before) = before {
                *before = (&*before + of_prefix)?;
            }
        }
        self.0[number] = Some(seen.narrow(1, prefix.length, rows.length)?);
        Ok(())
    }
}

impl Portable {
    /// (heads, n, d) to (n, kv_heads * d): sums over the query heads that share a key head.
    fn sum_shared(&self, x: &Tensor, shape: HeadShape) -> Result<Tensor> {
        let (_, length, dim) = x.dims3()?;
        let grouped = x.reshape((shape.kv_heads, shape.heads / shape.kv_heads, length, dim))?.sum(1)?;
        join(&grouped.to_dtype(self.dtype)?)
    }
}

/// Rows of (n, heads * d) as (heads, rows, d).
pub(super) fn heads(x: &Tensor, first: usize, rows: usize, shape: HeadShape) -> Result<Tensor> {
    Ok(x.narrow(0, first, rows)?.reshape((rows, (), shape.dim))?.transpose(0, 1)?.contiguous()?)
}

/// Keys or values that a segment sees, those of its prefix first, as (heads, keys, d): each key head repeated for the
/// query heads that share it.
fn seen(x: &Tensor, segment: &Segment, shape: HeadShape) -> Result<Tensor> {
    let Segment { rows, prefix } = *segment;
    let own = x.narrow(0, rows.first, rows.length)?;
    let x = match prefix.length {
        0 => own,
        length => Tensor::cat(&[x.narrow(0, prefix.first, length)?, own], 0)?,
    };
    repeat(&heads(&x, 0, segment.keys(), shape)?, shape)
}

/// (kv_heads, n, d) to (heads, n, d).
pub(super) fn repeat(x: &Tensor, shape: HeadShape) -> Result<Tensor> {
    let (kv_heads, rows, dim) = x.dims3()?;
    let each = shape.heads / shape.kv_heads;
    Ok(x.unsqueeze(1)?.expand((kv_heads, each, rows, dim))?.reshape((shape.heads, rows, dim))?)
}

/// (heads, n, d) to (n, heads * d).
pub(super) fn join(x: &Tensor) -> Result<Tensor> {
    let (heads, rows, dim) = x.dims3()?;
    Ok(x.transpose(0, 1)?.reshape((rows, heads * dim))?)
}

/// q kᵀ / sqrt(d) in fp32, (heads, queries, keys), minus infinity if the key is after the query. The first query
/// sees offset + 1 keys.
pub(super) fn scores(q: &Tensor, k: &Tensor, shape: HeadShape, offset: usize) -> Result<Tensor> {
    let scores = (q.matmul(&k.transpose(1, 2)?)?.to_dtype(DType::F32)? * f64::from(shape.scale()))?;
    let (_, queries, keys) = scores.dims3()?;
    let future = future(queries, keys, offset, q.device())?;
    Ok(scores.broadcast_add(&future)?)
}

fn future(queries: usize, keys: usize, offset: usize, device: &Device) -> Result<Tensor> {
    let masked = |i: usize, j: usize| if j <= offset + i { 0.0 } else { f32::NEG_INFINITY };
    let mask: Vec<f32> = (0..queries).flat_map(|i| (0..keys).map(move |j| masked(i, j))).collect();
    Ok(Tensor::from_vec(mask, (1, queries, keys), device)?)
}
