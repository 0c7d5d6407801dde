//! The head: log-probabilities and entropies of tokens.

use candle_core::Tensor;

use super::Arrays;
use crate::error::Result;

/// The input of the head, besides the hidden states.
#[derive(Clone, Copy, Debug)]
pub struct HeadInput<'a> {
    /// (vocabulary, hidden).
    pub weight: &'a Tensor,
    /// The id to score in each row, (n).
    pub targets: &'a [u32],
    /// Logits are divided by this.
    pub temperature: f32,
    /// Rows whose logits are in memory at once.
    pub chunk_rows: usize,
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

/// log-softmax over the vocabulary, in chunks of rows and two passes, so that the (tokens, vocabulary) matrix of a batch
/// is never in memory.
pub trait Head: Arrays {
    /// What the first pass leaves for the second, besides the scores.
    type Kept: Send;
    /// First pass: scores of hidden states (n, hidden).
    fn head(&self, hidden: &Self::Matrix, input: HeadInput<'_>) -> Result<(Scores, Self::Kept)>;
    /// Second pass: recomputes the logits where they were not kept, returns the gradient of the hidden states and adds the weight's to `grad`, if it
    /// is wanted. With
    /// p = softmax(z / τ) and H its entropy,
    /// d loss / d z_j = (a (1\[j = target\] - p_j) - b p_j (ln p_j + H)) / τ for a = d loss / d logp, b = d loss / d H.
    fn head_backward(
        &self,
        hidden: &Self::Matrix,
        input: HeadInput<'_>,
        scores: &Scores,
        kept: Self::Kept,
        coefficients: &Coefficients,
        grad: Option<&mut Self::Gradient>,
    ) -> Result<Self::Matrix>;
}

/// (first row, number of rows) of each chunk.
pub(crate) fn chunks(rows: usize, chunk: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).step_by(chunk).map(move |first| (first, chunk.min(rows - first)))
}
