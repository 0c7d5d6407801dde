//! Log-probabilities and entropies over the vocabulary in fp32, and their gradients, a chunk of rows at a time.

use candle_core::{D, DType, Tensor};

use super::{Portable, accumulate};
use crate::error::Result;
use crate::kernels::{Coefficients, Head, HeadAdapter, HeadGradients, HeadInput, HeadInputGradients, Scores, chunks};

impl Head for Portable {
    type Kept = ();

    fn head(&self, hidden: &Tensor, input: HeadInput<'_, Tensor>) -> Result<(Scores, ())> {
        let mut scores = Scores::default();
        let terms = self.terms(hidden, input)?;
        for (first, rows) in chunks(hidden.dim(0)?, input.chunk_rows) {
            let log_p = log_p(&narrow(&terms, first, rows)?, input.temperature)?;
            let targets = self.indices(&input.targets[first..first + rows])?.unsqueeze(1)?;
            scores.logp.extend(log_p.gather(&targets, 1)?.flatten_all()?.to_vec1::<f32>()?);
            let entropy = (log_p.exp()? * &log_p)?.sum(D::Minus1)?.neg()?;
            scores.entropy.extend(entropy.to_vec1::<f32>()?);
        }
        Ok((scores, ()))
    }

    fn head_backward(
        &self,
        hidden: &Tensor,
        input: HeadInput<'_, Tensor>,
        scores: &Scores,
        (): (),
        coefficients: &Coefficients,
        gradients: HeadGradients<'_, Tensor>,
    ) -> Result<HeadInputGradients<Tensor>> {
        let terms = self.terms(hidden, input)?;
        let mut sums = [gradients.weight, gradients.b];
        let mut parts = vec![Vec::new(); terms.len()];
        for (first, rows) in chunks(hidden.dim(0)?, input.chunk_rows) {
            let range = first..first + rows;
            let column = |values: &[f32]| -> Result<Tensor> {
                Ok(Tensor::from_slice(&values[range.clone()], (rows, 1), &self.device)?)
            };
            let a = column(&coefficients.logp)?;
            let b = column(&coefficients.entropy)?;
            let of_rows = narrow(&terms, first, rows)?;
            let log_p = log_p(&of_rows, input.temperature)?;
            let inner = log_p.broadcast_add(&column(&scores.entropy)?)?.broadcast_mul(&b)?.broadcast_add(&a)?;
            let targets = self.indices(&input.targets[range.clone()])?.unsqueeze(1)?;
            let dlogits = (log_p.exp()? * inner)?.neg()?.scatter_add(&targets, &a, 1)?;
            let dlogits = (dlogits / f64::from(input.temperature))?.to_dtype(self.dtype)?;
            for ((Term { x, weight }, sum), parts) in of_rows.iter().zip(&mut sums).zip(&mut parts) {
                if let Some(sum) = sum.as_deref_mut() {
                    accumulate(sum, &dlogits.t()?.matmul(x)?)?;
                }
                parts.push(dlogits.matmul(weight)?);
            }
        }
        let mut whole = parts.iter().map(|parts| Tensor::cat(parts, 0));
        let hidden = whole.next().expect("hidden states are always a term")?;
        Ok(HeadInputGradients { hidden, inner: whole.next().transpose()? })
    }
}

/// A part of the logits: x (n, width) times the transpose of a weight (vocabulary, width), in the compute type.
struct Term {
    x: Tensor,
    weight: Tensor,
}

impl Portable {
    /// The hidden states, and what an adapter adds.
    fn terms(&self, hidden: &Tensor, input: HeadInput<'_, Tensor>) -> Result<Vec<Term>> {
        let adapter = input.adapter.map(|HeadAdapter { inner, b }| (inner, b));
        let all = std::iter::once((hidden, input.weight)).chain(adapter);
        all.map(|(x, weight)| Ok(Term { x: x.clone(), weight: self.cast(weight)? })).collect()
    }
}

/// Narrows the terms to some rows.
fn narrow(terms: &[Term], first: usize, rows: usize) -> Result<Vec<Term>> {
    terms.iter().map(|Term { x, weight }| Ok(Term { x: x.narrow(0, first, rows)?, weight: weight.clone() })).collect()
}

/// log-softmax of the sum of the terms over the temperature, (rows, vocabulary), fp32.
fn log_p(terms: &[Term], temperature: f32) -> Result<Tensor> {
    let mut products = terms.iter().map(|Term { x, weight }| x.matmul(&weight.t()?)?.to_dtype(DType::F32));
    let first = products.next().expect("hidden states are always a term")?;
    let logits = (products.try_fold(first, |sum, more| sum + more?)? / f64::from(temperature))?;
    let shifted = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?)?;
    Ok(shifted.broadcast_sub(&shifted.exp()?.sum_keepdim(D::Minus1)?.log()?)?)
}
