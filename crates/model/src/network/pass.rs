//! The forward and backward pass of one micro-batch.

use std::borrow::Cow;
use std::ops::Range;

use super::block::BlockSums;
use super::head::{HeadPass, Scoring};
use super::layer::{Pass, Saved};
use super::{Network, Recompute, TokenLoss};
use crate::error::{ModelError, Result};
use crate::kernels::{Coefficients, Kernels, Scores, chunks};
use crate::pack::{Packed, validate_ids};
use crate::sampling::{DrawOptions, NotFinite, SampledFrom, SampledToken, Sampler, TokenDraw, exclude};
use crate::segment::Segment;

/// Rows whose logits are on the host at once: enough to share among threads, few enough to stay small (75 MB at most
/// vocabularies).
const STATISTICS_ROWS: usize = 128;

/// What the backward pass needs from the forward pass.
struct Forward<M> {
    /// The input of each layer, and the output of the last one.
    inputs: Vec<M>,
    /// Each layer's activations; empty if all are recomputed.
    saved: Vec<Saved<M>>,
}

impl<K: Kernels> Network<K> {
    pub(super) fn score_batch(&self, batch: &Packed, temperature: f32) -> Result<Scores> {
        let pass = self.pass(batch.positions())?;
        let x = self.last_layer(&pass, batch)?;
        self.scores_of(&pass, &x, batch, temperature)
    }

    /// The scores of the last layer's output.
    pub(super) fn scores_of(
        &self,
        pass: &Pass<'_, K>,
        x: &K::Matrix,
        batch: &Packed,
        temperature: f32,
    ) -> Result<Scores> {
        let scored = self.kernels.select_rows(x, batch.rows())?;
        let ids = self.parameters.ids();
        let hidden = pass.norm(&scored, ids.norm)?;
        Ok(HeadPass::new(pass, ids.head, hidden, batch, self.scoring(temperature))?.forward()?.0)
    }

    pub(super) fn score_sampled_batch(
        &self,
        batch: &Packed,
        from: SampledFrom<'_>,
        draws: &[TokenDraw],
    ) -> Result<Vec<SampledToken>> {
        let pass = self.pass(batch.positions())?;
        let x = self.last_layer(&pass, batch)?;
        let ids = self.parameters.ids();
        let mut tokens = Vec::with_capacity(batch.rows().len());
        for (first, rows) in chunks(batch.rows().len(), STATISTICS_ROWS.min(self.options.head_chunk_rows)) {
            let range = first..first + rows;
            let scored = self.kernels.select_rows(&x, &batch.rows()[range.clone()])?;
            let hidden = pass.norm(&scored, ids.norm)?;
            let mut logits = pass.head_logits(&hidden, ids.head, from.temperature)?;
            // The logits are already divided.
            let options = DrawOptions { temperature: 1.0, truncation: from.truncation, excluded: &[], logprobs: None };
            let of_row = |sampler: &mut Sampler, (row, &(target, of_token)): (&mut [f32], &(u32, TokenDraw))| {
                if of_token.cannot_end {
                    exclude(row, from.end_tokens);
                }
                let token = sampler.statistics(row, target, from);
                let draw = |number| Ok(sampler.draw(row, options, number, &mut Vec::new())?.id);
                let drawn = of_token.number.map(draw).transpose();
                let both = token.and_then(|token| Ok(SampledToken { drawn: drawn?, ..token }));
                both.map_err(|NotFinite| ModelError::NotFiniteLogits)
            };
            let of_token = |at: usize| draws.get(at).copied().unwrap_or_default();
            let targets: Vec<_> = range.map(|at| (batch.targets()[at], of_token(at))).collect();
            tokens.extend(self.workers.rows(&mut logits, &targets, self.is_on_cpu(), of_row)?);
        }
        Ok(tokens)
    }

    /// The output of the last layer.
    fn last_layer(&self, pass: &Pass<'_, K>, batch: &Packed) -> Result<K::Matrix> {
        self.through(pass, self.embedded(batch)?, 0..self.config.num_layers, batch)
    }

    pub(super) fn embedded(&self, batch: &Packed) -> Result<K::Matrix> {
        self.kernels.embed(self.parameters.get(self.parameters.ids().embedding), batch.ids())
    }

    /// The output of the last of these layers, of which `x` is the input of the first.
    pub(super) fn through(
        &self,
        pass: &Pass<'_, K>,
        mut x: K::Matrix,
        layers: Range<usize>,
        batch: &Packed,
    ) -> Result<K::Matrix> {
        for ids in &self.parameters.ids().layers[layers] {
            x = pass.forward(&x, ids, batch.segments())?.0;
        }
        Ok(x)
    }

    pub(super) fn train_batch(
        &self,
        batch: &Packed,
        temperature: f32,
        index: usize,
        loss: &dyn TokenLoss,
        gradients: &BlockSums<'_, K::Gradient>,
    ) -> Result<()> {
        let pass = self.pass(batch.positions())?;
        let ids = self.parameters.ids();
        let Forward { mut inputs, mut saved } = self.forward(&pass, batch)?;

        let last = inputs.pop().expect("the embedding is always there");
        let scored = self.kernels.select_rows(&last, batch.rows())?;
        drop(last);
        let hidden = pass.norm(&scored, ids.norm)?;
        let head = HeadPass::new(&pass, ids.head, hidden, batch, self.scoring(temperature))?;
        let known = self.kernels.has_head_at_once().then(|| loss.known_coefficients(index, batch)).flatten();
        let dhidden = if let Some(coefficients) = known {
            validate_coefficients(&coefficients, batch)?;
            head.at_once(&coefficients, gradients)?
        } else {
            let (scores, kept) = head.forward()?;
            let coefficients = loss.coefficients(index, batch, &scores).map_err(ModelError::Loss)?;
            validate_coefficients(&coefficients, batch)?;
            head.backward(&scores, kept, &coefficients, gradients)?
        };
        let dscored = pass.norm_backward(&dhidden, &scored, ids.norm, None, gradients)?;
        let mut dx = self.kernels.scatter_rows(&dscored, batch.rows(), batch.ids().len())?;
        for layer in ids.layers.iter().rev() {
            let x = inputs.pop().expect("one input for each layer");
            let saved = match saved.pop() {
                Some(saved) => saved,
                None => pass.forward(&x, layer, batch.segments())?.1,
            };
            dx = pass.backward(dx, &x, saved, layer, batch.segments(), gradients)?;
        }
        match gradients.of_embedding()? {
            Some(mut embedding) => self.kernels.embed_backward(&dx, batch.ids(), &mut embedding),
            None => Ok(()),
        }
    }

    pub(super) fn all_logits(&self, ids: &[u32]) -> Result<Vec<f32>> {
        validate_ids(&self.config, ids)?;
        let positions: Vec<u32> = (0..ids.len() as u32).collect();
        let pass = self.pass(&positions)?;
        let model = self.parameters.ids();
        let mut x = self.kernels.embed(self.parameters.get(model.embedding), ids)?;
        for layer in &model.layers {
            x = pass.forward(&x, layer, &[Segment::whole(0, ids.len())])?.0;
        }
        let hidden = pass.norm(&x, model.norm)?;
        pass.head_logits(&hidden, model.head, 1.0)
    }

    fn forward(&self, pass: &Pass<'_, K>, batch: &Packed) -> Result<Forward<K::Matrix>> {
        let ids = self.parameters.ids();
        let mut inputs = vec![self.kernels.embed(self.parameters.get(ids.embedding), batch.ids())?];
        let mut saved = Vec::new();
        for layer in &ids.layers {
            let (y, activations) = pass.forward(&inputs[inputs.len() - 1], layer, batch.segments())?;
            inputs.push(y);
            match self.options.recompute {
                Recompute::None => saved.push(activations),
                Recompute::Selective => saved.push(activations.without_cheap()),
                Recompute::Full => {}
            }
        }
        Ok(Forward { inputs, saved })
    }

    fn is_on_cpu(&self) -> bool {
        self.parameters.device().is_cpu()
    }

    pub(super) fn pass<'a>(&'a self, positions: &'a [u32]) -> Result<Pass<'a, K>> {
        let weights = match self.parameters.lora() {
            None => Cow::Borrowed(self.parameters.values()),
            Some(_) => Cow::Owned(self.parameters.scaled()?),
        };
        Ok(Pass { kernels: &self.kernels, config: &self.config, weights, table: &self.table, positions })
    }

    fn scoring(&self, temperature: f32) -> Scoring {
        Scoring { temperature, chunk_rows: self.options.head_chunk_rows }
    }
}

/// Refuses another number of coefficients than there are scored tokens.
fn validate_coefficients(coefficients: &Coefficients, batch: &Packed) -> Result<()> {
    let wanted = batch.targets().len();
    if coefficients.logp.len() == wanted && coefficients.entropy.len() == wanted {
        return Ok(());
    }
    let found = format!("{} and {}", coefficients.logp.len(), coefficients.entropy.len());
    Err(ModelError::input("numbers of coefficients", found, format!("{wanted} each")))
}
