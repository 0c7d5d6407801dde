//! Attention by the library: all sequences of a pass in one call.

use std::sync::{Arc, PoisonError};

use evenkeel_kernels::{
    FusedArrays, FusedAttention, FusedGradients, FusedLayout, FusedPass, FusedShape, Pointer, Type,
};

use super::sequences::sequences;
use super::{Cuda, Device, Matrix};
use crate::error::Result;
use crate::kernels::{AttentionForward, HeadShape};
use crate::segment::RowSpan;

/// Bytes of workspace that a deterministic backward pass may take: a sequence of 8,192 tokens with 28 heads, or six of
/// 4,096 with 16.
const DETERMINISTIC_WORKSPACE: usize = 4 << 30;
/// Lengths and offsets that are kept on the device: those of the two passes over a micro-batch.
const LAYOUTS: usize = 2;

/// A pass over the sequences of a batch: one call of the library, or several, and lengths and offsets on the device.
pub(super) struct Fused<M> {
    pass: FusedPass,
    layout: Arc<Layout<M>>,
    /// Bytes of workspace of the call that needs the most.
    workspace: usize,
}

/// Lengths and offsets of every call. Each layer of a pass has the same.
pub(super) struct Layout<M> {
    starts: Vec<usize>,
    shape: HeadShape,
    /// Sequences of each call.
    counts: Vec<usize>,
    calls: Vec<Call>,
    _memory: M,
}

/// One call: its shape, tokens and pairs, and the addresses of its lengths and offsets.
struct Call {
    shape: FusedShape,
    tokens: usize,
    pairs: u64,
    lengths: Pointer,
    offsets: [Pointer; 3],
}

impl<D: Device> Cuda<D> {
    /// How the library computes a pass, or `None` if it does not.
    pub(super) fn fused(
        &self,
        shape: HeadShape,
        starts: &[usize],
        pass: FusedPass,
    ) -> Result<Option<Fused<D::Memory>>> {
        let Ok(library) = self.attention_library(shape.dim) else { return Ok(None) };
        let all: Vec<RowSpan> = sequences(starts).collect();
        let room = room(shape, &all);
        let most = match pass {
            FusedPass::Forward | FusedPass::Backward => all.len(),
            FusedPass::DeterministicBackward => room.sequences_within(DETERMINISTIC_WORKSPACE).min(all.len()),
        };
        if most == 0 {
            return Ok(None);
        }
        let counts = if library.takes_empty_sequences() {
            all.chunks(most).map(<[RowSpan]>::len).collect()
        } else {
            FusedShape::calls_without_empty_sequences(all.len(), most)
        };
        let Some(layout) = self.layout(shape, starts, &all, counts)? else { return Ok(None) };
        let mut workspace = 0;
        for call in &layout.calls {
            match self.device.attention_workspace(call.shape, pass)? {
                Some(bytes) => workspace = workspace.max(bytes),
                None => return Ok(None),
            }
        }
        Ok(Some(Fused { pass, layout, workspace }))
    }

    /// Lengths and offsets on the device, or `None` where they are beyond 32 bits.
    fn layout(
        &self,
        shape: HeadShape,
        starts: &[usize],
        all: &[RowSpan],
        counts: Vec<usize>,
    ) -> Result<Option<Arc<Layout<D::Memory>>>> {
        let mut layouts = self.layouts.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            layouts.iter().find(|known| known.shape == shape && known.counts == counts && known.starts == starts);
        if let Some(known) = known {
            return Ok(Some(known.clone()));
        }
        let mut bytes = Vec::new();
        let mut place = |values: &[i32]| {
            let at = bytes.len();
            bytes.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
            // Every array begins at an address divisible by 16.
            bytes.resize(bytes.len().next_multiple_of(16), 0);
            Pointer(at as u64)
        };
        let mut calls = Vec::new();
        let mut left = all;
        for &count in &counts {
            let rows;
            (rows, left) = left.split_at(count);
            let room = room(shape, rows);
            let pairs: Vec<(usize, usize)> = rows.iter().map(|rows| (rows.first, rows.length)).collect();
            let Ok(layout) = FusedLayout::new(room, &pairs) else { return Ok(None) };
            calls.push(Call {
                shape: room,
                tokens: rows.iter().map(|rows| rows.length).sum(),
                pairs: rows.iter().map(|rows| (rows.length * (rows.length + 1) / 2) as u64).sum(),
                lengths: place(&layout.lengths),
                offsets: layout.offsets.each_ref().map(|offsets| place(offsets)),
            });
        }
        let memory = self.device.upload(&bytes)?;
        let Pointer(begin) = self.device.address(&memory);
        for call in &mut calls {
            for at in call.offsets.iter_mut().chain([&mut call.lengths]) {
                at.0 += begin;
            }
        }
        let layout = Arc::new(Layout { starts: starts.to_vec(), shape, counts, calls, _memory: memory });
        layouts.truncate(LAYOUTS - 1);
        layouts.insert(0, layout.clone());
        Ok(Some(layout))
    }

    pub(super) fn fused_attention(
        &self,
        q: &Matrix<D::Memory>,
        k: &Matrix<D::Memory>,
        v: &Matrix<D::Memory>,
        fused: &Fused<D::Memory>,
    ) -> Result<[Matrix<D::Memory>; 2]> {
        let out = self.blank(q.rows(), q.width())?;
        let log_sum = self.blank_of(Type::F32, q.rows(), fused.layout.shape.heads)?;
        let forward = AttentionForward { q, k, v, out: &out, log_sum: &log_sum };
        self.attend(fused, &forward, FusedGradients::default())?;
        Ok([out, log_sum])
    }

    pub(super) fn fused_attention_backward(
        &self,
        dout: &Matrix<D::Memory>,
        forward: AttentionForward<'_, Matrix<D::Memory>>,
        fused: &Fused<D::Memory>,
    ) -> Result<[Matrix<D::Memory>; 3]> {
        let AttentionForward { q, k, v, .. } = forward;
        let [dq, dk, dv] =
            [self.blank(q.rows(), q.width())?, self.blank(k.rows(), k.width())?, self.blank(v.rows(), v.width())?];
        let shape = fused.layout.shape;
        let dots = self.blank_of(Type::F32, q.rows(), shape.heads)?;
        let scratch = |kind, is_used: bool| is_used.then(|| self.blank_of(kind, q.rows(), q.width())).transpose();
        let dq_sum = scratch(Type::F32, fused.pass.sums_dq())?;
        let shares_keys = shape.heads != shape.kv_heads;
        let [dk_heads, dv_heads] = [scratch(Type::Bf16, shares_keys)?, scratch(Type::Bf16, shares_keys)?];
        let pointer = |matrix: &Option<Matrix<D::Memory>>| matrix.as_ref().map_or(Pointer::NULL, Matrix::at);
        let gradients = FusedGradients {
            dout: dout.at(),
            dq: dq.at(),
            dk: dk.at(),
            dv: dv.at(),
            dots: dots.at(),
            dq_sum: pointer(&dq_sum),
            dk_heads: pointer(&dk_heads),
            dv_heads: pointer(&dv_heads),
        };
        self.attend(fused, &forward, gradients)?;
        Ok([dq, dk, dv])
    }

    fn attend(
        &self,
        fused: &Fused<D::Memory>,
        forward: &AttentionForward<'_, Matrix<D::Memory>>,
        gradients: FusedGradients,
    ) -> Result<()> {
        let workspace = self.device.allocate(fused.workspace)?;
        for call in &fused.layout.calls {
            let [query_offsets, key_offsets, sum_offsets] = call.offsets;
            self.device.attend(&FusedAttention {
                shape: call.shape,
                pass: fused.pass,
                tokens: call.tokens,
                pairs: call.pairs,
                arrays: FusedArrays {
                    q: forward.q.at(),
                    k: forward.k.at(),
                    v: forward.v.at(),
                    out: forward.out.at(),
                    log_sum: forward.log_sum.at(),
                    lengths: call.lengths,
                    query_offsets,
                    key_offsets,
                    sum_offsets,
                },
                gradients,
                workspace: self.device.address(&workspace),
            })?;
        }
        Ok(())
    }
}

/// The shape of a plan for these sequences.
fn room(shape: HeadShape, rows: &[RowSpan]) -> FusedShape {
    let longest = rows.iter().map(|rows| rows.length).max().unwrap_or(0);
    let HeadShape { heads, kv_heads, dim } = shape;
    FusedShape { sequences: rows.len(), longest, heads, kv_heads, dim }.rounded_up()
}
