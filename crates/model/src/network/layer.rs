//! One decoder layer over any set of kernels: the forward pass, and the backward pass written by hand.

mod joined;
mod rotated;

use std::borrow::Cow;

use super::block::BlockSums;
use crate::config::Config;
use crate::error::Result;
use crate::kernels::{AttentionForward, HeadAdapter, HeadNormInput, HeadShape, Kernels, RotaryDirection};
use crate::parameters::{AdapterIds, LayerIds, LinearIds, ParameterId};
use crate::segment::Segment;
use candle_core::Tensor;
use joined::Gates;
use rotated::{Rotated, WithRaw};

/// Shared by all layers of a pass.
pub(crate) struct Pass<'a, K: Kernels> {
    pub(crate) kernels: &'a K,
    pub(crate) config: &'a Config,
    /// All parameters, by id; B of adapters times the scale.
    pub(crate) weights: Cow<'a, [Tensor]>,
    pub(crate) table: &'a K::RotaryTable,
    /// Each row's position in its sequence.
    pub(crate) positions: &'a [u32],
}

/// Activations of one layer that its backward pass reads. What is absent is computed again from the others.
pub(crate) struct Saved<M> {
    normed: Option<M>,
    queries: Rotated<M>,
    keys: Rotated<M>,
    v: M,
    attended: M,
    log_sum: M,
    middle: M,
    post_normed: Option<M>,
    gates: Gates<M>,
    gated: Option<M>,
}

impl<M> Saved<M> {
    /// Without activations that are cheap to recompute: those of norms and of the gated activation.
    pub(crate) fn without_cheap(self) -> Self {
        let queries = self.queries.without_cheap();
        let keys = self.keys.without_cheap();
        Self { normed: None, queries, keys, post_normed: None, gated: None, ..self }
    }
}

impl<K: Kernels> Pass<'_, K> {
    pub(super) fn weight(&self, id: ParameterId) -> &Tensor {
        &self.weights[id.index()]
    }

    pub(crate) fn linear(&self, x: &K::Matrix, ids: LinearIds, add: Option<&K::Matrix>) -> Result<K::Matrix> {
        let y = self.kernels.linear(x, self.weight(ids.weight), ids.bias.map(|id| self.weight(id)), add)?;
        let Some(AdapterIds { a, b }) = ids.adapter else { return Ok(y) };
        let inner = self.kernels.linear(x, self.weight(a), None, None)?;
        self.kernels.linear(&inner, self.weight(b), None, Some(&y))
    }

    /// Logits of hidden states, divided by a temperature: (n, vocabulary), row by row.
    pub(crate) fn head_logits(&self, hidden: &K::Matrix, head: LinearIds, temperature: f32) -> Result<Vec<f32>> {
        let inner = self.head_inner(hidden, head)?;
        self.kernels.logits(hidden, self.weight(head.weight), self.head_adapter(inner.as_ref(), head), temperature)
    }

    /// A of the head's adapter applied to hidden states, if it has one.
    pub(super) fn head_inner(&self, hidden: &K::Matrix, head: LinearIds) -> Result<Option<K::Matrix>> {
        head.adapter.map(|adapter| self.kernels.linear(hidden, self.weight(adapter.a), None, None)).transpose()
    }

    /// What the head's adapter adds, given its [inner](Self::head_inner) matrix.
    pub(super) fn head_adapter<'m>(
        &'m self,
        inner: Option<&'m K::Matrix>,
        head: LinearIds,
    ) -> Option<HeadAdapter<'m, K::Matrix>> {
        let (inner, AdapterIds { b, .. }) = inner.zip(head.adapter)?;
        Some(HeadAdapter { inner, b: self.weight(b) })
    }

    pub(crate) fn norm(&self, x: &K::Matrix, id: ParameterId) -> Result<K::Matrix> {
        self.kernels.rms_norm(x, self.weight(id), self.config.rms_norm_eps)
    }

    /// Queries or keys of a layer, normalised and rotated where it does so; with the raw ones if normalised.
    pub(crate) fn rotated(
        &self,
        raw: K::Matrix,
        norm: Option<ParameterId>,
        is_rotated: bool,
    ) -> Result<WithRaw<K::Matrix>> {
        match (norm, is_rotated) {
            (Some(id), true) => Ok((self.kernels.norm_rotary(&raw, &self.head_norm(id))?, Some(raw))),
            (Some(id), false) => Ok((self.norm(&raw, id)?, Some(raw))),
            (None, true) => Ok((self.rotate(raw, RotaryDirection::Forward)?, None)),
            (None, false) => Ok((raw, None)),
        }
    }

    fn head_norm(&self, id: ParameterId) -> HeadNormInput<'_, K::RotaryTable> {
        let weight = self.weight(id);
        let epsilon = self.config.rms_norm_eps;
        HeadNormInput { weight, epsilon, table: self.table, positions: self.positions }
    }

    fn rotate(&self, x: K::Matrix, direction: RotaryDirection) -> Result<K::Matrix> {
        self.kernels.rotary(x, self.table, self.positions, direction)
    }

    /// What [`Self::rotated`] made, from what was kept of it.
    fn rotated_again(
        &self,
        kept: Rotated<K::Matrix>,
        norm: Option<ParameterId>,
        is_rotated: bool,
    ) -> Result<WithRaw<K::Matrix>> {
        match kept {
            Rotated::Plain(rotated) => Ok((rotated, None)),
            Rotated::Normed { raw, rotated: Some(rotated) } => Ok((rotated, Some(raw))),
            Rotated::Normed { raw, rotated: None } => self.rotated(raw, norm, is_rotated),
        }
    }

    /// From x (n, hidden) to the layer's output, with what the backward pass needs.
    pub(crate) fn forward(
        &self,
        x: &K::Matrix,
        ids: &LayerIds,
        segments: &[Segment],
    ) -> Result<(K::Matrix, Saved<K::Matrix>)> {
        let kernels = self.kernels;
        let normed = self.norm(x, ids.input_norm)?;
        let (queries, keys, v) = self.projected(&normed, ids)?;
        let (attended, log_sum) = kernels.attention(&queries.0, &keys.0, &v, HeadShape::of(self.config), segments)?;
        let (middle, post_normed) = self.middle(&attended, x, ids)?;
        let gates = match self.joined(&[ids.gate, ids.up]) {
            Some(joined) => Gates::Joined(joined.multiply(&post_normed, &self.weights_of(&[ids.gate, ids.up]))?),
            None => Gates::Apart {
                gate: self.linear(&post_normed, ids.gate, None)?,
                up: self.linear(&post_normed, ids.up, None)?,
            },
        };
        let gated = self.gated(&gates)?;
        let y = self.linear(&gated, ids.down, Some(&middle))?;
        let queries = Rotated::new(queries);
        let keys = Rotated::new(keys);
        let normed = Some(normed);
        let post_normed = Some(post_normed);
        let gated = Some(gated);
        Ok((y, Saved { normed, queries, keys, v, attended, log_sum, middle, post_normed, gates, gated }))
    }

    /// The gradient of `x` from that of the layer's output; the gradients of parameters are added to `gradients`.
    pub(crate) fn backward(
        &self,
        dy: K::Matrix,
        x: &K::Matrix,
        saved: Saved<K::Matrix>,
        ids: &LayerIds,
        segments: &[Segment],
        gradients: &BlockSums<'_, K::Gradient>,
    ) -> Result<K::Matrix> {
        let kernels = self.kernels;
        let shape = HeadShape::of(self.config);
        let Saved { normed, queries, keys, v, attended, log_sum, middle, post_normed, gates, gated } = saved;
        let again =
            |kept: Option<K::Matrix>, x: &K::Matrix, norm: ParameterId| kept.map_or_else(|| self.norm(x, norm), Ok);

        // Each activation is computed again when it is read and dropped once nothing reads it any more: the widest ones
        // make up most of what a pass needs at a time.
        let gated = gated.map_or_else(|| self.gated(&gates), Ok)?;
        let dgated = self.linear_backward(&dy, &gated, ids.down, None, gradients)?;
        drop(gated);
        let dpost = match gates {
            Gates::Apart { gate, up } => {
                let [dgate, dup] = kernels.swiglu_backward(&dgated, &gate, &up)?;
                drop((dgated, gate, up));
                let post_normed = again(post_normed, &middle, ids.post_norm)?;
                let dpost = self.linear_backward(&dgate, &post_normed, ids.gate, None, gradients)?;
                drop(dgate);
                self.linear_backward(&dup, &post_normed, ids.up, Some(dpost), gradients)?
            }
            Gates::Joined(both) => {
                let dboth = self.joined_kernels()?.swiglu_backward(&dgated, &both)?;
                drop((dgated, both));
                let post_normed = again(post_normed, &middle, ids.post_norm)?;
                self.joined_backward(&dboth, &post_normed, &[ids.gate, ids.up], gradients)?
            }
        };
        let dmiddle = self.norm_backward(&dpost, &middle, ids.post_norm, Some(dy), gradients)?;
        drop((dpost, middle));

        let dattended = self.linear_backward(&dmiddle, &attended, ids.output, None, gradients)?;
        let (q, raw_queries) = self.rotated_again(queries, ids.query_norm, ids.is_rotated)?;
        let (k, raw_keys) = self.rotated_again(keys, ids.key_norm, ids.is_rotated)?;
        let forward = AttentionForward { q: &q, k: &k, v: &v, out: &attended, log_sum: &log_sum };
        let [dq, dk, dv] = kernels.attention_backward(&dattended, forward, shape, segments)?;
        drop((dattended, q, k, v, attended, log_sum));
        let dq = self.rotated_backward(dq, raw_queries, ids.query_norm, ids.is_rotated, gradients)?;
        let dk = self.rotated_backward(dk, raw_keys, ids.key_norm, ids.is_rotated, gradients)?;
        let normed = again(normed, x, ids.input_norm)?;
        let layers = [ids.query, ids.key, ids.value];
        let dnormed = if let Some(joined) = self.joined(&layers) {
            let dall = joined.join(&[&dq, &dk, &dv])?;
            drop((dq, dk, dv));
            self.joined_backward(&dall, &normed, &layers, gradients)?
        } else {
            let dnormed = self.linear_backward(&dq, &normed, ids.query, None, gradients)?;
            let dnormed = self.linear_backward(&dk, &normed, ids.key, Some(dnormed), gradients)?;
            self.linear_backward(&dv, &normed, ids.value, Some(dnormed), gradients)?
        };
        self.norm_backward(&dnormed, x, ids.input_norm, Some(dmiddle), gradients)
    }

    fn rotated_backward(
        &self,
        dy: K::Matrix,
        raw: Option<K::Matrix>,
        norm: Option<ParameterId>,
        is_rotated: bool,
        gradients: &BlockSums<'_, K::Gradient>,
    ) -> Result<K::Matrix> {
        match (norm.zip(raw), is_rotated) {
            (Some((id, raw)), true) => self
                .with_sum(id, gradients, |sum| self.kernels.norm_rotary_backward(dy, &raw, &self.head_norm(id), sum)),
            (Some((id, raw)), false) => self.norm_backward(&dy, &raw, id, None, gradients),
            (None, true) => self.rotate(dy, RotaryDirection::Backward),
            (None, false) => Ok(dy),
        }
    }

    pub(crate) fn norm_backward(
        &self,
        dy: &K::Matrix,
        x: &K::Matrix,
        id: ParameterId,
        into: Option<K::Matrix>,
        gradients: &BlockSums<'_, K::Gradient>,
    ) -> Result<K::Matrix> {
        let epsilon = self.config.rms_norm_eps;
        self.with_sum(id, gradients, |sum| self.kernels.rms_norm_backward(dy, x, self.weight(id), epsilon, sum, into))
    }

    /// Runs a kernel that computes a small parameter's gradient on its way: if the parameter is frozen, that is
    /// discarded.
    fn with_sum<T>(
        &self,
        id: ParameterId,
        gradients: &BlockSums<'_, K::Gradient>,
        kernel: impl FnOnce(&mut K::Gradient) -> Result<T>,
    ) -> Result<T> {
        match gradients.of(id)? {
            Some(mut sum) => kernel(&mut sum),
            None => kernel(&mut self.kernels.zero_gradient(self.weight(id))?),
        }
    }

    fn linear_backward(
        &self,
        dy: &K::Matrix,
        x: &K::Matrix,
        ids: LinearIds,
        into: Option<K::Matrix>,
        gradients: &BlockSums<'_, K::Gradient>,
    ) -> Result<K::Matrix> {
        let kernels = self.kernels;
        if let Some(mut sum) = gradients.of(ids.weight)? {
            kernels.linear_backward_weight(dy, x, &mut sum)?;
        }
        if let Some(bias) = ids.bias
            && let Some(mut sum) = gradients.of(bias)?
        {
            kernels.linear_backward_bias(dy, &mut sum)?;
        }
        let dx = kernels.linear_backward_input(dy, self.weight(ids.weight), into)?;
        let Some(AdapterIds { a, b }) = ids.adapter else { return Ok(dx) };
        // Cheaper to compute again than to keep: a matrix of `rank` columns.
        let inner = kernels.linear(x, self.weight(a), None, None)?;
        if let Some(mut sum) = gradients.of(b)? {
            kernels.linear_backward_weight(dy, &inner, &mut sum)?;
        }
        drop(inner);
        let dinner = kernels.linear_backward_input(dy, self.weight(b), None)?;
        if let Some(mut sum) = gradients.of(a)? {
            kernels.linear_backward_weight(&dinner, x, &mut sum)?;
        }
        kernels.linear_backward_input(&dinner, self.weight(a), Some(dx))
    }
}
