//! The network in training, and the ones that terms of the loss compare it with.

use std::path::Path;
use std::sync::Arc;

use candle_core::Tensor;
use evenkeel_host::available_memory;
use evenkeel_model::{
    BaseWeights, Config, NetworkOptions, Parameters, PartialGradient, Scores, TokenLoss, TrainableModel,
    most_gradients, network,
};

use crate::blocks::Place;
use crate::error::Result;
use crate::micro_batch::MicroBatches;
use crate::optimizer::UpdateTarget;
use crate::ranks::Division;
use crate::sequence::Sequence;
use crate::settings::{GradientPacking, TrainingSettings};
use crate::terms::InitialPolicy;

/// The policy and what it is compared with.
pub(crate) struct Model {
    policy: Box<dyn TrainableModel>,
    /// The networks of the loss's terms, in their order; `None` for the policy itself.
    frozen: Vec<Option<Box<dyn TrainableModel>>>,
    /// The policy's weights, once decoders in this process may read them where they are.
    lent: Option<Arc<BaseWeights>>,
    micro_batch_tokens: usize,
    gradient_packing: GradientPacking,
}

impl Model {
    /// All networks on the device of the parameters.
    pub(crate) fn new(
        config: Config,
        parameters: Parameters,
        settings: &TrainingSettings,
        division: Division,
    ) -> Result<Self> {
        let compute = &settings.compute;
        let gradients_at_once = if compute.is_cpu() {
            compute.gradients_at_once(parameters.trained_count(), available_memory())
        } else {
            usize::MAX
        };
        if gradients_at_once < most_gradients(compute.gradient_blocks, compute.resolved_threads()) {
            tracing::info!(gradients_at_once, "memory is short: threads share blocks of gradients, with the same bits");
        }
        let options = NetworkOptions {
            gradients_at_once,
            share: division.share(compute.gradient_blocks),
            ..compute.network_options()
        };
        let dtype = compute.dtype.into();
        let beside = InitialPolicy { config: &config, parameters: &parameters, dtype, options };
        let frozen = settings.loss_terms().iter().map(|term| term.open_network(&beside)).collect::<Result<_, _>>()?;
        let policy = network(config, parameters, dtype, options)?;
        let micro_batch_tokens = compute.resolved_micro_batch_tokens();
        Ok(Self { policy, frozen, lent: None, micro_batch_tokens, gradient_packing: compute.gradient_packing() })
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
        UpdateTarget { kernels, parameters, is_lent: self.lent.is_some() }
    }

    /// Lends the weights, which were just written to a folder, to the decoders in this process. The next update leaves
    /// them as they are.
    pub(crate) fn lend(&mut self, folder: &Path) -> Result<()> {
        let kernels_change_them = self.for_update().kernels.is_some();
        self.lent =
            if kernels_change_them { None } else { BaseWeights::lent(folder, self.config(), self.parameters())? };
        Ok(())
    }

    /// Ends the lending of weights that an update has replaced.
    pub(crate) fn end_lending(&mut self) {
        self.lent = None;
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

    /// The parameters of the frozen networks, in the order of their terms.
    pub(crate) fn frozen(&self) -> impl Iterator<Item = &Parameters> {
        self.frozen.iter().flatten().map(|network| network.parameters())
    }

    /// Log-probabilities and entropies of each sequence under the network of a term.
    pub(crate) fn score_frozen(&self, term: usize, batches: &MicroBatches, temperature: f32) -> Result<Vec<Scores>> {
        let network = self.frozen[term].as_deref().unwrap_or(&*self.policy);
        Ok(batches.unpack(network.score(batches.packed(), temperature)?))
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
