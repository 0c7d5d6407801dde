//! Supervised fine-tuning: token cross-entropy through the same passes and an optimizer of its own.

use evenkeel_model::{Coefficients, Packed, Scores, TokenLoss};

use super::pack_all;
use crate::error::{LearnerError, Result};
use crate::learner::{Learner, Phase};
use crate::optimizer::UpdateReport;

/// A prompt and the response to learn.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// Token ids that are given, 1 or more.
    pub prompt: Vec<u32>,
    /// Token ids to learn, 1 or more, the end marker included where there is one.
    pub response: Vec<u32>,
}

/// What a supervised update did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SupervisedReport {
    /// Mean cross-entropy of the response tokens, nats.
    pub loss: f64,
    /// Response tokens of the batch.
    pub tokens: usize,
    /// Global gradient norm before clipping.
    pub grad_norm: f64,
    /// The learning rate that was used.
    pub learning_rate: f64,
    /// Whether the gradient was not finite, so that nothing was changed.
    pub skipped: bool,
    /// Steps done, this one included: the version of the weights after it.
    pub version: u64,
}

/// loss = - sum of logp / N over all N response tokens of the batch.
struct CrossEntropy {
    weight: f32,
}

impl TokenLoss for CrossEntropy {
    fn coefficients(&self, _index: usize, _batch: &Packed, scores: &Scores) -> Result<Coefficients, String> {
        let count = scores.logp.len();
        Ok(Coefficients { logp: vec![-self.weight; count], entropy: vec![0.0; count] })
    }
}

/// Keeps each micro-batch's sum of log-probabilities for the report.
struct Recording<'a> {
    inner: CrossEntropy,
    sums: &'a [std::sync::OnceLock<f64>],
}

impl TokenLoss for Recording<'_> {
    fn coefficients(&self, index: usize, batch: &Packed, scores: &Scores) -> Result<Coefficients, String> {
        let sum = scores.logp.iter().map(|&x| f64::from(x)).sum();
        self.sums[index].set(sum).map_err(|_| format!("micro-batch {index} was scored twice"))?;
        self.inner.coefficients(index, batch, scores)
    }
}

impl Learner {
    /// One update on a batch of examples, at temperature 1. The first one after a policy step begins with fresh
    /// moments, and so does the first policy step after it.
    ///
    /// # Errors
    /// An empty batch or an example that the model cannot take, by its index; nothing is changed then.
    pub fn supervised_step(&mut self, examples: &[Example]) -> Result<SupervisedReport> {
        if examples.is_empty() {
            return Err(LearnerError::input("number of examples", 0, "1 or more"));
        }
        self.network.discard_gradients();
        let mut sequences = Vec::with_capacity(examples.len());
        for (index, example) in examples.iter().enumerate() {
            for (field, ids) in [("prompt", &example.prompt), ("response", &example.response)] {
                if ids.is_empty() {
                    let field = format!("{field} of example {index}");
                    return Err(LearnerError::input(field, "empty", "1 or more token ids"));
                }
            }
            let ids = [&*example.prompt, &*example.response].concat();
            evenkeel_model::check_ids(self.network.config(), &ids)
                .map_err(|error| crate::group::in_place(error, &format!("example {index}")))?;
            let scored: Vec<usize> = (example.prompt.len()..ids.len()).collect();
            sequences.push((ids, scored));
        }
        let tokens: usize = examples.iter().map(|example| example.response.len()).sum();
        let (_, packed) = pack_all(self.network.config(), &sequences, self.micro_batch_tokens())?;
        let sums: Vec<_> = packed.iter().map(|_| std::sync::OnceLock::new()).collect();
        let loss = Recording { inner: CrossEntropy { weight: 1.0 / tokens as f32 }, sums: &sums };
        let before = self.snapshot(1)?;
        let report = match self.supervised_update(&packed, &loss) {
            Ok(report) => report,
            Err(error) => {
                self.restore(before);
                return Err(error);
            }
        };
        self.steps += 1;
        let sum: f64 = sums.iter().filter_map(|sum| sum.get()).sum();
        Ok(SupervisedReport {
            loss: -sum / tokens as f64,
            tokens,
            grad_norm: report.grad_norm,
            learning_rate: report.learning_rate,
            skipped: report.skipped,
            version: self.steps,
        })
    }

    fn supervised_update(&mut self, packed: &[Packed], loss: &dyn TokenLoss) -> Result<UpdateReport> {
        self.network.accumulate(packed, 1.0, loss)?;
        let gradients = self.network.take_gradients()?;
        self.enter(Phase::Supervised)?;
        self.moments.update(&self.settings.supervised, self.network.parameters_mut(), &gradients, 1.0)
    }
}
