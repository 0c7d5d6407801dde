//! One decoder layer over any set of kernels: the forward pass, and the backward pass written by hand.

use super::gradients::GradientSet;
use crate::config::Config;
use crate::error::Result;
use crate::kernels::{AttentionForward, HeadShape, Kernels, Turn};
use crate::parameters::{LayerIds, LinearIds};
use candle_core::Tensor;

/// Shared by all layers of a pass.
pub(crate) struct Pass<'a, K: Kernels> {
    pub(crate) kernels: &'a K,
    pub(crate) config: &'a Config,
    /// All parameters, by id.
    pub(crate) weights: &'a [Tensor],
    pub(crate) table: &'a K::Table,
    /// Each row's position in its sequence.
    pub(crate) positions: &'a [u32],
}

/// Activations of one layer that its backward pass reads.
pub(crate) struct Saved<M> {
    normed: M,
    /// Queries and keys as projected, before norm and rotation; only kept if there is a norm.
    raw: Option<[M; 2]>,
    q: M,
    k: M,
    v: M,
    attended: M,
    log_sum: M,
    middle: M,
    post_normed: M,
    gate: M,
    up: M,
    gated: M,
}

impl<K: Kernels> Pass<'_, K> {
    pub(crate) fn linear(&self, x: &K::Matrix, ids: LinearIds, add: Option<&K::Matrix>) -> Result<K::Matrix> {
        self.kernels.linear(x, &self.weights[ids.weight], ids.bias.map(|id| &self.weights[id]), add)
    }

    pub(crate) fn norm(&self, x: &K::Matrix, id: usize) -> Result<K::Matrix> {
        self.kernels.rms_norm(x, &self.weights[id], self.config.rms_norm_eps)
    }

    /// Queries or keys, normalised if the family does so, and rotated; with the raw ones if normalised.
    pub(crate) fn rotated(&self, raw: K::Matrix, norm: Option<usize>) -> Result<(K::Matrix, Option<K::Matrix>)> {
        match norm {
            Some(id) => {
                let normed = self.norm(&raw, id)?;
                Ok((self.kernels.rotary(normed, self.table, self.positions, Turn::Forward)?, Some(raw)))
            }
            None => Ok((self.kernels.rotary(raw, self.table, self.positions, Turn::Forward)?, None)),
        }
    }

    /// From x (n, hidden) to the layer's output, with what the backward pass needs.
    pub(crate) fn forward(
        &self,
        x: &K::Matrix,
        ids: &LayerIds,
        starts: &[usize],
    ) -> Result<(K::Matrix, Saved<K::Matrix>)> {
        let kernels = self.kernels;
        let normed = self.norm(x, ids.input_norm)?;
        let (q, raw_q) = self.rotated(self.linear(&normed, ids.query, None)?, ids.query_norm)?;
        let (k, raw_k) = self.rotated(self.linear(&normed, ids.key, None)?, ids.key_norm)?;
        let v = self.linear(&normed, ids.value, None)?;
        let (attended, log_sum) = kernels.attention(&q, &k, &v, HeadShape::of(self.config), starts)?;
        let middle = self.linear(&attended, ids.output, Some(x))?;
        let post_normed = self.norm(&middle, ids.post_norm)?;
        let gate = self.linear(&post_normed, ids.gate, None)?;
        let up = self.linear(&post_normed, ids.up, None)?;
        let gated = kernels.swiglu(&gate, &up)?;
        let y = self.linear(&gated, ids.down, Some(&middle))?;
        let raw = raw_q.zip(raw_k).map(|(q, k)| [q, k]);
        Ok((y, Saved { normed, raw, q, k, v, attended, log_sum, middle, post_normed, gate, up, gated }))
    }

    /// The gradient of `x` from that of the layer's output; the gradients of parameters are added to `gradients`.
    pub(crate) fn backward(
        &self,
        dy: K::Matrix,
        x: &K::Matrix,
        saved: Saved<K::Matrix>,
        ids: &LayerIds,
        starts: &[usize],
        gradients: &mut GradientSet<K::Gradient>,
    ) -> Result<K::Matrix> {
        let (kernels, shape) = (self.kernels, HeadShape::of(self.config));
        let Saved { normed, raw, q, k, v, attended, log_sum, middle, post_normed, gate, up, gated } = saved;

        // Each activation is dropped once nothing reads it any more: the widest ones make up most of what a pass needs at a time.
        let dgated = self.linear_backward(&dy, &gated, ids.down, None, gradients)?;
        drop(gated);
        let [dgate, dup] = kernels.swiglu_backward(&dgated, &gate, &up)?;
        drop((dgated, gate, up));
        let dpost = self.linear_backward(&dgate, &post_normed, ids.gate, None, gradients)?;
        drop(dgate);
        let dpost = self.linear_backward(&dup, &post_normed, ids.up, Some(dpost), gradients)?;
        drop((dup, post_normed));
        let dmiddle = self.norm_backward(&dpost, &middle, ids.post_norm, Some(dy), gradients)?;
        drop((dpost, middle));

        let dattended = self.linear_backward(&dmiddle, &attended, ids.output, None, gradients)?;
        let forward = AttentionForward { q: &q, k: &k, v: &v, out: &attended, log_sum: &log_sum };
        let [dq, dk, dv] = kernels.attention_backward(&dattended, forward, shape, starts)?;
        drop((dattended, q, k, v, attended, log_sum));
        let [raw_q, raw_k] = match &raw {
            Some([q, k]) => [Some(q), Some(k)],
            None => [None, None],
        };
        let dq = self.rotated_backward(dq, raw_q, ids.query_norm, gradients)?;
        let dk = self.rotated_backward(dk, raw_k, ids.key_norm, gradients)?;
        let dnormed = self.linear_backward(&dq, &normed, ids.query, None, gradients)?;
        let dnormed = self.linear_backward(&dk, &normed, ids.key, Some(dnormed), gradients)?;
        let dnormed = self.linear_backward(&dv, &normed, ids.value, Some(dnormed), gradients)?;
        self.norm_backward(&dnormed, x, ids.input_norm, Some(dmiddle), gradients)
    }

    fn rotated_backward(
        &self,
        dy: K::Matrix,
        raw: Option<&K::Matrix>,
        norm: Option<usize>,
        gradients: &mut GradientSet<K::Gradient>,
    ) -> Result<K::Matrix> {
        let dy = self.kernels.rotary(dy, self.table, self.positions, Turn::Backward)?;
        match norm.zip(raw) {
            Some((id, raw)) => self.norm_backward(&dy, raw, id, None, gradients),
            None => Ok(dy),
        }
    }

    pub(crate) fn norm_backward(
        &self,
        dy: &K::Matrix,
        x: &K::Matrix,
        id: usize,
        into: Option<K::Matrix>,
        gradients: &mut GradientSet<K::Gradient>,
    ) -> Result<K::Matrix> {
        let epsilon = self.config.rms_norm_eps;
        self.kernels.rms_norm_backward(dy, x, &self.weights[id], epsilon, gradients.reach(id), into)
    }

    fn linear_backward(
        &self,
        dy: &K::Matrix,
        x: &K::Matrix,
        ids: LinearIds,
        into: Option<K::Matrix>,
        gradients: &mut GradientSet<K::Gradient>,
    ) -> Result<K::Matrix> {
        self.kernels.linear_weight(dy, x, gradients.reach(ids.weight))?;
        if let Some(bias) = ids.bias {
            self.kernels.linear_bias(dy, gradients.reach(bias))?;
        }
        self.kernels.linear_input(dy, &self.weights[ids.weight], into)
    }
}
