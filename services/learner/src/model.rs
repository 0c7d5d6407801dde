//! The network in training and, if a KL term needs it, the frozen reference.

use candle_core::Tensor;
use evenkeel_host::available_memory;
use evenkeel_model::{
    Config, NetworkOptions, Parameters, PartialGradient, Scores, TokenLoss, TrainableModel, most_gradients, network,
};

use crate::blocks::Place;
use crate::error::Result;
use crate::micro_batch::MicroBatches;
use crate::optimizer::UpdateTarget;
use crate::ranks::Division;
use crate::sequence::Sequence;
use crate::settings::{GradientPacking, TrainingSettings};

/// The policy and its reference.
pub(crate) struct Model {
    policy: Box<dyn TrainableModel>,
    /// The initial weights, if a KL term refers to them.
    reference: Option<Box<dyn TrainableModel>>,
    micro_batch_tokens: usize,
    gradient_packing: GradientPacking,
}

impl Model {
    /// Both networks on the device of the parameters.
    pub(crate) fn new(
        config: Config,
        parameters: Parameters,
        settings: &TrainingSettings,
        division: Division,
    ) -> Result<Self> {
        let compute = &settings.compute;
        let gradients_at_once = match compute.is_cpu() {
            true => compute.gradients_at_once(parameters.trained_count(), available_memory()),
            false => usize::MAX,
        };
        if gradients_at_once < most_gradients(compute.gradient_blocks, compute.resolved_threads()) {
            tracing::info!(gradients_at_once, "memory is short: threads share blocks of gradients, with the same bits");
        }
        let options = NetworkOptions {
            gradients_at_once,
            share: division.share(compute.gradient_blocks),
            ..compute.network_options()
        };
        let open = |parameters| network(config.clone(), parameters, compute.dtype.into(), options);
        let reference = match settings.objective.kl_coefficient {
            0.0 => None,
            _ => Some(open(parameters.deep_copy()?)?),
        };
        let policy = open(parameters)?;
        let micro_batch_tokens = compute.resolved_micro_batch_tokens();
        Ok(Self { policy, reference, micro_batch_tokens, gradient_packing: compute.gradient_packing() })
    }

    /// The network in training.
    pub(crate) fn policy(&self) -> &dyn TrainableModel {
        &*self.policy
    }

    pub(crate) fn config(&self) -> &Config {
        self.policy.config()
    }

    pub(crate) fn parameters(&self) -> &Parameters {
        self.policy.parameters()
    }

    pub(crate) fn parameters_mut(&mut self) -> &mut Parameters {
        self.policy.parameters_mut()
    }

    /// What an optimizer updates.
    pub(crate) fn for_update(&mut self) -> UpdateTarget<'_> {
        let (kernels, parameters) = self.policy.for_update();
        UpdateTarget { kernels, parameters }
    }

    /// Whether an update changes the arrays of weights and moments instead of making new ones.
    pub(crate) fn updates_in_place(&mut self) -> bool {
        let target = self.for_update();
        target.kernels.is_some() || target.parameters.device().is_cpu()
    }

    /// Packs sequences to be scored by the micro-batch budget.
    pub(crate) fn pack(&self, sequences: &[Sequence]) -> Result<MicroBatches> {
        let shares_prompts = matches!(self.gradient_packing, GradientPacking::InOrder(_));
        MicroBatches::pack(self.config(), sequences, self.micro_batch_tokens, shares_prompts)
    }

    /// Packs sequences whose gradient is summed, at their places in the update.
    pub(crate) fn pack_in_blocks(&self, sequences: &[Sequence], places: &[Place]) -> Result<MicroBatches> {
        MicroBatches::pack_in_blocks(self.config(), sequences, places, self.gradient_packing)
    }

    /// Log-probabilities and entropies of each sequence under the policy.
    pub(crate) fn score(&self, batches: &MicroBatches, temperature: f32) -> Result<Vec<Scores>> {
        Ok(batches.unpack(self.policy.score(batches.packed(), temperature)?))
    }

    /// Whether there is a reference.
    pub(crate) fn has_reference(&self) -> bool {
        self.reference.is_some()
    }

    /// Log-probabilities and entropies under the reference; `None` without a reference.
    pub(crate) fn score_reference(&self, batches: &MicroBatches, temperature: f32) -> Result<Option<Vec<Scores>>> {
        let Some(reference) = &self.reference else { return Ok(None) };
        Ok(Some(batches.unpack(reference.score(batches.packed(), temperature)?)))
    }

    /// Forward and backward passes; gradients are added to those already summed.
    pub(crate) fn accumulate(&mut self, batches: &MicroBatches, temperature: f32, loss: &dyn TokenLoss) -> Result<()> {
        Ok(self.policy.accumulate(batches.packed(), temperature, loss)?)
    }

    /// Takes the summed gradients in the order of the parameters; the next sums begin at zero.
    pub(crate) fn take_gradients(&mut self) -> Result<Vec<Tensor>> {
        Ok(self.policy.take_gradients()?)
    }

    /// Takes the sums of the own blocks; the next sums begin at zero.
    pub(crate) fn take_partial_gradients(&mut self) -> Result<Vec<PartialGradient>> {
        Ok(self.policy.take_partial_gradients()?)
    }

    /// Discards the gradients summed so far.
    pub(crate) fn discard_gradients(&mut self) {
        self.policy.discard_gradients();
    }

    /// Replaces the policy by another network and returns the old one.
    #[cfg(test)]
    pub(crate) fn replace_policy(&mut self, policy: Box<dyn TrainableModel>) -> Box<dyn TrainableModel> {
        std::mem::replace(&mut self.policy, policy)
    }
}
