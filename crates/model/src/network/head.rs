//! The head of a micro-batch over any set of kernels, with an adapter or without.

use super::block::BlockSums;
use super::layer::Pass;
use crate::error::Result;
use crate::kernels::{Coefficients, HeadGradients, HeadInput, HeadInputGradients, Kernels, Scores};
use crate::pack::Packed;
use crate::parameters::{AdapterIds, LinearIds};

/// How tokens are scored.
#[derive(Clone, Copy)]
pub(super) struct Scoring {
    /// Logits are divided by this.
    pub(super) temperature: f32,
    /// Rows whose logits are in memory at once.
    pub(super) chunk_rows: usize,
}

/// The head and what it reads: the hidden states of a micro-batch's scored tokens.
pub(super) struct HeadPass<'a, K: Kernels> {
    pass: &'a Pass<'a, K>,
    head: LinearIds,
    hidden: K::Matrix,
    /// A of the adapter applied to them: a matrix of `rank` columns, so that the gradients of both A and B need no
    /// logits of their own.
    inner: Option<K::Matrix>,
    batch: &'a Packed,
    scoring: Scoring,
}

impl<'a, K: Kernels> HeadPass<'a, K> {
    pub(super) fn new(
        pass: &'a Pass<'a, K>,
        head: LinearIds,
        hidden: K::Matrix,
        batch: &'a Packed,
        scoring: Scoring,
    ) -> Result<Self> {
        let inner = pass.head_inner(&hidden, head)?;
        Ok(Self { pass, head, inner, hidden, batch, scoring })
    }

    fn input(&self) -> HeadInput<'_, K::Matrix> {
        HeadInput {
            weight: self.pass.weight(self.head.weight),
            adapter: self.pass.head_adapter(self.inner.as_ref(), self.head),
            targets: self.batch.targets(),
            temperature: self.scoring.temperature,
            chunk_rows: self.scoring.chunk_rows,
        }
    }

    /// The scores, and what the backward pass needs besides.
    pub(super) fn forward(&self) -> Result<(Scores, K::Kept)> {
        self.pass.kernels.head(&self.hidden, self.input())
    }

    /// The gradient of the hidden states; the gradients of parameters are added to `gradients`.
    pub(super) fn backward(
        &self,
        scores: &Scores,
        kept: K::Kept,
        coefficients: &Coefficients,
        gradients: &BlockSums<'_, K::Gradient>,
    ) -> Result<K::Matrix> {
        let found = self.with_sums(gradients, |wanted| {
            self.pass.kernels.head_backward(&self.hidden, self.input(), scores, kept, coefficients, wanted)
        })?;
        self.of_hidden(found, gradients)
    }

    /// Runs both passes, with coefficients that are known before.
    pub(super) fn at_once(
        &self,
        coefficients: &Coefficients,
        gradients: &BlockSums<'_, K::Gradient>,
    ) -> Result<K::Matrix> {
        let (_, found) = self.with_sums(gradients, |wanted| {
            self.pass.kernels.head_at_once(&self.hidden, self.input(), coefficients, wanted)
        })?;
        self.of_hidden(found, gradients)
    }

    fn with_sums<T>(
        &self,
        gradients: &BlockSums<'_, K::Gradient>,
        run: impl FnOnce(HeadGradients<'_, K::Gradient>) -> Result<T>,
    ) -> Result<T> {
        let mut weight = gradients.of(self.head.weight)?;
        let mut b = self.head.adapter.map(|adapter| gradients.of(adapter.b)).transpose()?.flatten();
        run(HeadGradients { weight: weight.as_deref_mut(), b: b.as_deref_mut() })
    }

    /// The gradient of the hidden states, by the weight and by the adapter.
    fn of_hidden(
        &self,
        HeadInputGradients { hidden, inner }: HeadInputGradients<K::Matrix>,
        gradients: &BlockSums<'_, K::Gradient>,
    ) -> Result<K::Matrix> {
        let kernels = self.pass.kernels;
        let (Some(AdapterIds { a, .. }), Some(dinner)) = (self.head.adapter, inner) else { return Ok(hidden) };
        if let Some(mut sum) = gradients.of(a)? {
            kernels.linear_backward_weight(&dinner, &self.hidden, &mut sum)?;
        }
        kernels.linear_backward_input(&dinner, self.pass.weight(a), Some(hidden))
    }
}
