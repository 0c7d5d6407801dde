//! Log-probabilities and entropies over the vocabulary in fp32, and their gradients, a chunk of rows at a time.

use candle_core::{D, DType, Tensor};

use super::{Portable, accumulate};
use crate::error::Result;
use crate::kernels::{Coefficients, Head, HeadInput, Scores, chunks};

impl Head for Portable {
    type Kept = ();

    fn head(&self, hidden: &Tensor, input: HeadInput<'_>) -> Result<(Scores, ())> {
        let mut scores = Scores::default();
        let weight = self.cast(input.weight)?;
        for (first, rows) in chunks(hidden.dim(0)?, input.chunk_rows) {
            let log_p = log_p(&hidden.narrow(0, first, rows)?, &weight, input.temperature)?;
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
        input: HeadInput<'_>,
        scores: &Scores,
        (): (),
        coefficients: &Coefficients,
        mut grad: Option<&mut Tensor>,
    ) -> Result<Tensor> {
        let weight = self.cast(input.weight)?;
        let mut parts = Vec::new();
        for (first, rows) in chunks(hidden.dim(0)?, input.chunk_rows) {
            let range = first..first + rows;
            let column = |values: &[f32]| -> Result<Tensor> {
                Ok(Tensor::from_slice(&values[range.clone()], (rows, 1), &self.device)?)
            };
            let (a, b) = (column(&coefficients.logp)?, column(&coefficients.entropy)?);
            let hidden = hidden.narrow(0, first, rows)?;
            let log_p = log_p(&hidden, &weight, input.temperature)?;
            let inner = log_p.broadcast_add(&column(&scores.entropy)?)?.broadcast_mul(&b)?.broadcast_add(&a)?;
            let targets = self.indices(&input.targets[range.clone()])?.unsqueeze(1)?;
            let dlogits = (log_p.exp()? * inner)?.neg()?.scatter_add(&targets, &a, 1)?;
            let dlogits = (dlogits / f64::from(input.temperature))?.to_dtype(self.dtype)?;
            if let Some(grad) = grad.as_deref_mut() {
                accumulate(grad, &dlogits.t()?.matmul(&hidden)?)?;
            }
            parts.push(dlogits.matmul(&weight)?);
        }
        Ok(Tensor::cat(&parts, 0)?)
    }
}

/// log-softmax of the logits over the temperature, (rows, vocabulary), fp32.
fn log_p(hidden: &Tensor, weight: &Tensor, temperature: f32) -> Result<Tensor> {
    let logits = (hidden.matmul(&weight.t()?)?.to_dtype(DType::F32)? / f64::from(temperature))?;
    let shifted = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?)?;
    Ok(shifted.broadcast_sub(&shifted.exp()?.sum_keepdim(D::Minus1)?.log()?)?)
}
