//! What training and scoring ask of a model, whatever its kernels.

use candle_core::Tensor;

use super::{PartialGradient, TokenLoss};
use crate::config::Config;
use crate::error::Result;
use crate::hidden_states::HiddenStates;
use crate::kernels::{OptimizerKernels, Scores};
use crate::pack::Packed;
use crate::parameters::Parameters;
use crate::sampling::{SampledFrom, SampledToken, TokenDraw};

/// A trainable model, independent of its kernels.
pub trait TrainableModel: Send {
    /// Sizes and capabilities of the model.
    fn config(&self) -> &Config;
    /// The fp32 master parameters.
    fn parameters(&self) -> &Parameters;
    /// Mutable access for an optimizer.
    fn parameters_mut(&mut self) -> &mut Parameters;
    /// The parameters for an optimizer, and the kernels that it can use on them.
    fn for_update(&mut self) -> (Option<&dyn OptimizerKernels>, &mut Parameters);
    /// Log-probabilities and entropies of each micro-batch's scored tokens, logits divided by `temperature`.
    fn score(&self, batches: &[Packed], temperature: f32) -> Result<Vec<Scores>>;
    /// Scores as [`score`](Self::score) does, and keeps hidden states for passes over the same text under other weights.
    fn score_keeping(&self, batches: &[Packed], temperature: f32, _states: &mut HiddenStates) -> Result<Vec<Scores>> {
        self.score(batches, temperature)
    }
    /// Scores with the bits of [`score`](Self::score), given states that were kept under weights whose first difference
    /// is in this layer: those before it are not computed for micro-batches whose states are found.
    fn score_from(
        &self,
        batches: &[Packed],
        temperature: f32,
        _states: &HiddenStates,
        _layer: usize,
    ) -> Result<Vec<Scores>> {
        self.score(batches, temperature)
    }
    /// For the scored tokens of each micro-batch, the statistics of the distributions that they were sampled from. A
    /// row's numbers do not depend on which other rows are computed with it. `draws`: of each micro-batch what is known
    /// of the draw of each scored token; of lists that are not there, nothing is.
    ///
    /// # Errors
    /// Logits that are not finite, a failure of the device.
    fn score_sampled(
        &self,
        batches: &[Packed],
        from: SampledFrom<'_>,
        draws: &[Vec<TokenDraw>],
    ) -> Result<Vec<Vec<SampledToken>>>;
    /// Forward and backward passes over the micro-batches; gradients are added to the current sums. Blocks ascend, also
    /// from call to call: within a block gradients are summed in the order of its micro-batches, whatever calls they
    /// come in.
    ///
    /// # Errors
    /// A block before one that was begun, or beyond the last; the error of a loss; a failure of the device. What was
    /// summed is then discarded.
    fn accumulate(&mut self, batches: &[Packed], temperature: f32, loss: &dyn TokenLoss) -> Result<()>;
    /// Takes the summed gradients as fp32 tensors in the order of the parameters; the next sums begin at zero.
    ///
    /// # Errors
    /// [`NoGradient`](crate::ModelError::NoGradient) if no backward pass reached some parameter since the last call.
    fn take_gradients(&mut self) -> Result<Vec<Tensor>>;
    /// Takes the sums of the own blocks ([`share`](super::NetworkOptions::share)), which others complete; the next sums
    /// begin at zero.
    ///
    /// # Errors
    /// A failure of the device.
    fn take_partial_gradients(&mut self) -> Result<Vec<PartialGradient>>;
    /// Discards the gradients summed so far.
    fn discard_gradients(&mut self);
    /// Logits of every token of one sequence, row by row, from the training forward pass.
    fn logits(&self, ids: &[u32]) -> Result<Vec<f32>>;
}
