//! Passes over one text under several weights: layers before the first that differs are computed once.

use super::Network;
use crate::error::Result;
use crate::hidden_states::HiddenStates;
use crate::kernels::{Kernels, Scores};
use crate::pack::Packed;

impl<K: Kernels> Network<K> {
    /// Scores, and the hidden states before each of these ascending layers.
    pub(super) fn score_keeping_batch(
        &self,
        batch: &Packed,
        temperature: f32,
        layers: &[usize],
    ) -> Result<(Scores, Vec<Vec<f32>>)> {
        let pass = self.pass(batch.positions())?;
        let mut x = self.embedded(batch)?;
        let mut kept = Vec::with_capacity(layers.len());
        let mut first = 0;
        for &layer in layers {
            x = self.through(&pass, x, first..layer, batch)?;
            kept.push(self.kernels.to_host(&x)?);
            first = layer;
        }
        x = self.through(&pass, x, first..self.config.num_layers, batch)?;
        Ok((self.scores_of(&pass, &x, batch, temperature)?, kept))
    }

    /// Scores, from the states that were kept before this layer or the last one before it.
    pub(super) fn score_batch_from(
        &self,
        batch: &Packed,
        temperature: f32,
        states: &HiddenStates,
        layer: usize,
    ) -> Result<Scores> {
        let Some((first, rows)) = states.find(batch, layer)? else { return self.score_batch(batch, temperature) };
        let pass = self.pass(batch.positions())?;
        let all: Vec<u32> = (0..batch.ids().len() as u32).collect();
        let x = self.kernels.embed(&rows.to_device(self.parameters.device())?, &all)?;
        let x = self.through(&pass, x, first..self.config.num_layers, batch)?;
        self.scores_of(&pass, &x, batch, temperature)
    }
}
