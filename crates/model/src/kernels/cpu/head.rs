//! Log-probabilities and entropies over the vocabulary, and their gradients, a chunk of rows at a time.

use candle_core::Tensor;
use multiversion::multiversion;

use super::linear::product;
use super::matmul::matmul;
use super::rows_of_weights::with_rows;
use super::simd::{exp, lane_sum, lane_sums, max};
use super::view::{Store, View};
use super::{Cpu, Matrix};
use crate::error::Result;
use crate::kernels::{
    Arrays, Coefficients, Head, HeadAdapter, HeadGradients, HeadInput, HeadInputGradients, Scores, chunks,
};

impl Head for Cpu {
    /// The logits, if they are one chunk: the second pass then needs no product for them, and as much memory.
    type Kept = Option<Matrix>;

    fn logits(
        &self,
        hidden: &Matrix,
        weight: &Tensor,
        adapter: Option<HeadAdapter<'_, Matrix>>,
        temperature: f32,
    ) -> Result<Vec<f32>> {
        let input = HeadInput { weight, adapter, targets: &[], temperature, chunk_rows: hidden.rows() };
        self.to_host(&logits(hidden, input, 0, hidden.rows())?)
    }

    fn head(&self, hidden: &Matrix, input: HeadInput<'_, Matrix>) -> Result<(Scores, Self::Kept)> {
        let mut scores = Scores { logp: vec![0.0; hidden.rows()], entropy: vec![0.0; hidden.rows()] };
        let vocabulary = input.weight.dim(0)?;
        let mut kept = None;
        for (first, rows) in chunks(hidden.rows(), input.chunk_rows) {
            let logits = logits(hidden, input, first, rows)?;
            let range = first..first + rows;
            let logp = &mut scores.logp[range.clone()];
            let entropy = &mut scores.entropy[range.clone()];
            score(&logits, vocabulary, &input.targets[range], logp, entropy);
            kept = (rows == hidden.rows()).then_some(logits);
        }
        Ok((scores, kept))
    }

    fn head_backward(
        &self,
        hidden: &Matrix,
        input: HeadInput<'_, Matrix>,
        scores: &Scores,
        mut kept: Self::Kept,
        coefficients: &Coefficients,
        mut gradients: HeadGradients<'_, Vec<f32>>,
    ) -> Result<HeadInputGradients<Matrix>> {
        let vocabulary = input.weight.dim(0)?;
        let mut dhidden = Matrix::uninitialized(hidden.rows(), hidden.width());
        let mut dinner = input.adapter.map(|adapter| Matrix::uninitialized(hidden.rows(), adapter.inner.width()));
        for (first, rows) in chunks(hidden.rows(), input.chunk_rows) {
            let mut logits = match kept.take() {
                Some(kept) => kept,
                None => logits(hidden, input, first, rows)?,
            };
            let range = first..first + rows;
            let of_rows = RowGradients {
                targets: &input.targets[range.clone()],
                entropy: &scores.entropy[range.clone()],
                dlogp: &coefficients.logp[range.clone()],
                dentropy: &coefficients.entropy[range],
                temperature: input.temperature,
            };
            logit_gradients(&mut logits, vocabulary, of_rows);
            let dlogits = View::rows_of(&logits, rows, vocabulary, vocabulary);
            backward(dlogits, hidden, input.weight, first, gradients.weight.as_deref_mut(), &mut dhidden)?;
            if let (Some(adapter), Some(dinner)) = (input.adapter, &mut dinner) {
                backward(dlogits, adapter.inner, adapter.b, first, gradients.b.as_deref_mut(), dinner)?;
            }
        }
        Ok(HeadInputGradients { hidden: dhidden, inner: dinner })
    }
}

/// The logits of some rows, of which there is at least one.
fn logits(hidden: &Matrix, input: HeadInput<'_, Matrix>, first: usize, rows: usize) -> Result<Matrix> {
    let mut logits = Matrix::uninitialized(rows, input.weight.dim(0)?);
    let factor = 1.0 / input.temperature;
    product(&mut logits, rows_of(hidden, first, rows), input.weight, factor, Store::Set)?;
    if let Some(adapter) = input.adapter {
        product(&mut logits, rows_of(adapter.inner, first, rows), adapter.b, factor, Store::Add)?;
    }
    Ok(logits)
}

/// From the gradient of some rows' logits: sets theirs of x, from row `first` on, and adds the weight's.
fn backward(
    dlogits: View<'_>,
    x: &Matrix,
    weight: &Tensor,
    first: usize,
    sum: Option<&mut Vec<f32>>,
    dx: &mut Matrix,
) -> Result<()> {
    let width = x.width();
    if let Some(sum) = sum {
        matmul(sum, width, dlogits.t(), rows_of(x, first, dlogits.rows), 1.0, Store::Add);
    }
    let dx = &mut dx[first * width..];
    with_rows(weight, |row, block| {
        let store = if row > 0 { Store::Add } else { Store::Set };
        matmul(dx, width, dlogits.columns(row, block.rows), block, 1.0, store);
    })
}

fn rows_of(x: &Matrix, first: usize, rows: usize) -> View<'_> {
    View::rows_of(&x[first * x.width()..], rows, x.width(), x.width())
}

/// With m the largest logit and S the sum of e^(z - m): ln p = z - m - ln S and H = ln S - sum e^(z - m) (z - m) / S.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn score(logits: &[f32], vocabulary: usize, targets: &[u32], logp: &mut [f32], entropy: &mut [f32]) {
    for (i, row) in logits.chunks_exact(vocabulary).enumerate() {
        let largest = max(row);
        let [sum, weighted] = lane_sums(vocabulary, |j| {
            let shifted = row[j] - largest;
            let power = exp(shifted);
            [power, power * shifted]
        });
        let normalizer = Normalizer { largest, log_sum: libm::logf(sum) };
        logp[i] = normalizer.log_probability(row[targets[i] as usize]);
        entropy[i] = normalizer.log_sum - weighted / sum;
    }
}

/// What turns logits of a row into log-probabilities, with the bits of [`Head::head`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Normalizer {
    largest: f32,
    log_sum: f32,
}

impl Normalizer {
    /// The normaliser of a row of logits; `None` if one of them is not finite.
    pub(crate) fn of(row: &[f32]) -> Option<Self> {
        let (largest, sum) = largest_and_sum(row);
        largest.is_finite().then(|| Self { largest, log_sum: libm::logf(sum) })
    }

    pub(crate) fn log_probability(self, logit: f32) -> f32 {
        logit - self.largest - self.log_sum
    }
}

/// m and S of [`score`].
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn largest_and_sum(row: &[f32]) -> (f32, f32) {
    let largest = max(row);
    (largest, lane_sum(row.len(), |j| exp(row[j] - largest)))
}

struct RowGradients<'a> {
    targets: &'a [u32],
    entropy: &'a [f32],
    dlogp: &'a [f32],
    dentropy: &'a [f32],
    temperature: f32,
}

/// Replaces logits by d loss / d logits (before division by the temperature).
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn logit_gradients(logits: &mut [f32], vocabulary: usize, rows: RowGradients<'_>) {
    let inverse_temperature = 1.0 / rows.temperature;
    for (i, row) in logits.chunks_exact_mut(vocabulary).enumerate() {
        let a = rows.dlogp[i] * inverse_temperature;
        let b = rows.dentropy[i] * inverse_temperature;
        let largest = max(row);
        if b == 0.0 {
            // The common case, without the entropy's logarithms.
            for x in row.iter_mut() {
                *x = exp(*x - largest);
            }
            let factor = -a / lane_sum(vocabulary, |j| row[j]);
            for x in row.iter_mut() {
                *x *= factor;
            }
        } else {
            let log_sum = largest + libm::logf(lane_sum(vocabulary, |j| exp(row[j] - largest)));
            for x in row.iter_mut() {
                let log_p = *x - log_sum;
                *x = -exp(log_p) * (a + b * (log_p + rows.entropy[i]));
            }
        }
        row[rows.targets[i] as usize] += a;
    }
}
