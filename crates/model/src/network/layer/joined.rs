//! The parts of a layer that some kernels compute together, where their variants are asked for: layers of one input, and
//! a sum with the norm that follows.

use candle_core::Tensor;

use super::{Pass, WithRaw};
use crate::error::{ModelError, Result};
use crate::kernels::{JoinedProducts, Kernels};
use crate::network::block::BlockSums;
use crate::parameters::{LayerIds, LinearIds};

/// Inputs of the gated activation.
pub(super) enum Gates<M> {
    Apart {
        gate: M,
        up: M,
    },
    /// Beside each other: (n, 2 inner).
    Joined(M),
}

/// Queries, keys and values.
type Projected<M> = (WithRaw<M>, WithRaw<M>, M);

impl<K: Kernels> Pass<'_, K> {
    /// The kernels that compute these layers of one input as one, if any do: layers without biases and adapters.
    pub(super) fn joined(&self, layers: &[LinearIds]) -> Option<&dyn JoinedProducts<K::Matrix, K::Gradient>> {
        let is_plain = |layer: &LinearIds| layer.bias.is_none() && layer.adapter.is_none();
        self.kernels.joined().filter(|_| layers.iter().all(is_plain))
    }

    pub(super) fn weights_of(&self, layers: &[LinearIds]) -> Vec<&Tensor> {
        layers.iter().map(|layer| self.weight(layer.weight)).collect()
    }

    /// Queries, keys (as [`Self::rotated`] makes them) and values.
    pub(super) fn projected(&self, x: &K::Matrix, ids: &LayerIds) -> Result<Projected<K::Matrix>> {
        let layers = [ids.query, ids.key, ids.value];
        let rotated_queries = |raw| self.rotated(raw, ids.query_norm, ids.is_rotated);
        let rotated_keys = |raw| self.rotated(raw, ids.key_norm, ids.is_rotated);
        let Some(joined) = self.joined(&layers) else {
            let queries = rotated_queries(self.linear(x, ids.query, None)?)?;
            let keys = rotated_keys(self.linear(x, ids.key, None)?)?;
            return Ok((queries, keys, self.linear(x, ids.value, None)?));
        };
        let weights = self.weights_of(&layers);
        let widths = weights.iter().map(|weight| weight.dim(0)).collect::<candle_core::Result<Vec<_>>>()?;
        let mut parts = joined.split(&joined.multiply(x, &weights)?, &widths)?.into_iter();
        let (Some(q), Some(k), Some(v)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(ModelError::input("parts of a joined product", widths.len(), "3"));
        };
        Ok((rotated_queries(q)?, rotated_keys(k)?, v))
    }

    /// The sum of x and what attention gives, and its norm.
    pub(super) fn middle(&self, attended: &K::Matrix, x: &K::Matrix, ids: &LayerIds) -> Result<(K::Matrix, K::Matrix)> {
        if self.kernels.takes_sums(self.config.hidden_size) {
            let output = self.linear(attended, ids.output, None)?;
            let weight = self.weight(ids.post_norm);
            let [middle, normed] = self.kernels.norm_of_sum(&output, x, weight, self.config.rms_norm_eps)?;
            return Ok((middle, normed));
        }
        let middle = self.linear(attended, ids.output, Some(x))?;
        let normed = self.norm(&middle, ids.post_norm)?;
        Ok((middle, normed))
    }

    pub(super) fn gated(&self, gates: &Gates<K::Matrix>) -> Result<K::Matrix> {
        match gates {
            Gates::Apart { gate, up } => self.kernels.swiglu(gate, up),
            Gates::Joined(both) => self.joined_kernels()?.swiglu(both),
        }
    }

    pub(super) fn joined_kernels(&self) -> Result<&dyn JoinedProducts<K::Matrix, K::Gradient>> {
        self.kernels
            .joined()
            .ok_or_else(|| ModelError::input("kernels of a joined product", "none", "those that made it"))
    }

    /// The gradient of the input of layers whose results are beside each other; the gradients of their weights are added.
    pub(super) fn joined_backward(
        &self,
        dy: &K::Matrix,
        x: &K::Matrix,
        layers: &[LinearIds],
        gradients: &BlockSums<'_, K::Gradient>,
    ) -> Result<K::Matrix> {
        let joined = self.joined_kernels()?;
        let weights = self.weights_of(layers);
        let mut first = 0;
        for (layer, weight) in layers.iter().zip(&weights) {
            let width = weight.dim(0)?;
            if let Some(mut sum) = gradients.of(layer.weight)? {
                joined.backward_weight(dy, first..first + width, x, &mut sum)?;
            }
            first += width;
        }
        joined.backward_input(dy, &weights)
    }
}
