//! The head: log-probabilities and entropies of tokens.

use candle_core::Tensor;

use super::Linear;
use crate::error::Result;

/// The input of the head, besides the hidden states.
#[derive(Debug)]
pub struct HeadInput<'a, M> {
    /// Weight of the head, (vocabulary, hidden).
    pub weight: &'a Tensor,
    /// What an adapter adds to the logits, if the head has one.
    pub adapter: Option<HeadAdapter<'a, M>>,
    /// The id to score in each row, (n).
    pub targets: &'a [u32],
    /// Logits are divided by this.
    pub temperature: f32,
    /// Rows whose logits are in memory at once.
    pub chunk_rows: usize,
}

/// The second half of the head's adapter: its logits are `inner` times the transpose of `b`.
#[derive(Debug)]
pub struct HeadAdapter<'a, M> {
    /// A of the adapter applied to the hidden states, (n, rank).
    pub inner: &'a M,
    /// B times the scale, (vocabulary, rank).
    pub b: &'a Tensor,
}

/// Whatever the matrices are, these only refer to them.
impl<M> Clone for HeadInput<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for HeadInput<'_, M> {}

impl<M> Clone for HeadAdapter<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for HeadAdapter<'_, M> {}

/// The sums that the head adds its gradients to, of those that are wanted.
#[derive(Debug)]
pub struct HeadGradients<'a, G> {
    /// Sum for the weight.
    pub weight: Option<&'a mut G>,
    /// Sum for the adapter's B.
    pub b: Option<&'a mut G>,
}

/// The gradients of the head's inputs.
#[derive(Debug)]
pub struct HeadInputGradients<M> {
    /// Gradient of the hidden states, by the weight alone.
    pub hidden: M,
    /// Gradient of [`HeadAdapter::inner`], if there is an adapter.
    pub inner: Option<M>,
}

/// Log-probability and entropy of each scored token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// ln p(target), (n), nats.
    pub logp: Vec<f32>,
    /// Entropy of the whole distribution, (n), nats.
    pub entropy: Vec<f32>,
}

/// d loss / d of each scored token's quantities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coefficients {
    /// d loss / d logp, (n).
    pub logp: Vec<f32>,
    /// d loss / d entropy, (n).
    pub entropy: Vec<f32>,
}

/// log-softmax over the vocabulary, in chunks of rows and two passes, so that the (tokens, vocabulary) matrix of a
/// batch is never in memory.
pub trait Head: Linear {
    /// What the first pass leaves for the second, besides the scores.
    type Kept: Send;

    /// The logits of hidden states (n, hidden) divided by a temperature, on the host: (n, vocabulary), row by row.
    /// `weight` and `adapter` as in [`HeadInput`].
    ///
    /// On a CPU they are, to the bit, the logits that [`head`](Self::head) scores.
    fn logits(
        &self,
        hidden: &Self::Matrix,
        weight: &Tensor,
        adapter: Option<HeadAdapter<'_, Self::Matrix>>,
        temperature: f32,
    ) -> Result<Vec<f32>> {
        let mut sum = self.linear(hidden, weight, None, None)?;
        if let Some(HeadAdapter { inner, b }) = adapter {
            sum = self.linear(inner, b, None, Some(&sum))?;
        }
        let mut logits = self.to_host(&sum)?;
        if temperature != 1.0 {
            logits.iter_mut().for_each(|x| *x /= temperature);
        }
        Ok(logits)
    }

    /// First pass: scores of hidden states (n, hidden).
    fn head(&self, hidden: &Self::Matrix, input: HeadInput<'_, Self::Matrix>) -> Result<(Scores, Self::Kept)>;
    /// Second pass: recomputes the logits where they were not kept, returns the gradients of the inputs and adds those
    /// of the weights that are wanted. With p = softmax(z / τ) and H its entropy, d loss / d z_j = (a (1\[j = target\]
    /// - p_j) - b p_j (ln p_j + H)) / τ for a = d loss / d logp, b = d loss / d H.
    fn head_backward(
        &self,
        hidden: &Self::Matrix,
        input: HeadInput<'_, Self::Matrix>,
        scores: &Scores,
        kept: Self::Kept,
        coefficients: &Coefficients,
        gradients: HeadGradients<'_, Self::Gradient>,
    ) -> Result<HeadInputGradients<Self::Matrix>>;
    /// Whether [`head_at_once`](Self::head_at_once) computes logits once: by kernels of which that
    /// [variant](super::Variants) is asked for.
    fn has_head_at_once(&self) -> bool {
        false
    }
    /// Computes both passes, with coefficients that are known before.
    fn head_at_once(
        &self,
        hidden: &Self::Matrix,
        input: HeadInput<'_, Self::Matrix>,
        coefficients: &Coefficients,
        gradients: HeadGradients<'_, Self::Gradient>,
    ) -> Result<(Scores, HeadInputGradients<Self::Matrix>)> {
        let (scores, kept) = self.head(hidden, input)?;
        let found = self.head_backward(hidden, input, &scores, kept, coefficients, gradients)?;
        Ok((scores, found))
    }
}

/// (first row, number of rows) of each chunk.
pub(crate) fn chunks(rows: usize, chunk: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).step_by(chunk).map(move |first| (first, chunk.min(rows - first)))
}
