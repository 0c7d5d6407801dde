//! The training network: from packed micro-batches to scores and summed gradients.

mod block;
mod gradients;
mod head;
pub(crate) mod layer;
mod pass;
mod recompute;
mod shared_layers;
mod sums;
mod trainable;
mod tree;
mod workers;

use candle_core::{DType, Device, Tensor};

use crate::config::Config;
use crate::error::{BoxError, ModelError, Result};
use crate::hidden_states::HiddenStates;
use crate::kernels::cpu::Cpu;
#[cfg(feature = "cuda")]
use crate::kernels::cuda::{CandleDevice, Cuda};
use crate::kernels::portable::Portable;
use crate::kernels::{AttentionOptions, Coefficients, Kernels, OptimizerKernels, Scores, Variants};
use crate::pack::Packed;
use crate::parameters::Parameters;
use crate::sampling::{SampledFrom, SampledToken, TokenDraw};
use crate::segment::Segment;
use gradients::GradientSet;
pub use gradients::gradients_of_sums;
pub use recompute::Recompute;
pub use sums::{BlockShare, fewest_gradients, most_gradients};
use sums::{Sums, validate_blocks};
pub use trainable::TrainableModel;
pub use tree::{TreeNode, nodes_of, sum_of_nodes};
use workers::Workers;

/// How the network computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkOptions {
    /// Threads, each with its own micro-batches (CPU kernels only). Any number of them gives the same bits.
    pub threads: usize,
    /// Blocks of a batch whose gradients are summed apart and then combined in a tree: a power of two. See
    /// [`Packed::in_block`].
    pub gradient_blocks: usize,
    /// Gradients that may be in memory at a time, at least [`fewest_gradients`]. Where there are fewer than
    /// [`most_gradients`], threads work on fewer blocks at a time, with the same bits.
    pub gradients_at_once: usize,
    /// The blocks that are summed here.
    pub share: BlockShare,
    /// What the backward pass recomputes.
    pub recompute: Recompute,
    /// Rows whose logits over the vocabulary are in memory at once.
    pub head_chunk_rows: usize,
    /// How a GPU computes attention.
    pub attention: AttentionOptions,
    /// Changes to a GPU's passes that are off unless they are asked for.
    pub variants: Variants,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            gradient_blocks: 8,
            gradients_at_once: usize::MAX,
            share: BlockShare::ALL,
            recompute: Recompute::None,
            head_chunk_rows: 1024,
            attention: AttentionOptions::default(),
            variants: Variants::default(),
        }
    }
}

/// A loss over the scored tokens of micro-batches.
pub trait TokenLoss: Sync {
    /// d loss / d logp and d loss / d entropy of each scored token of micro-batch number `index`. Called once for each
    /// micro-batch, from several threads.
    ///
    /// # Errors
    /// Any error ends the pass as [`ModelError::Loss`].
    fn coefficients(&self, index: usize, batch: &Packed, scores: &Scores) -> Result<Coefficients, BoxError>;
    /// The coefficients without the scores, by a loss whose coefficients do not depend on them.
    fn known_coefficients(&self, _index: usize, _batch: &Packed) -> Option<Coefficients> {
        None
    }
}

/// The sum of a node of the tree, before it is combined with those of others.
#[derive(Clone, Debug)]
pub struct PartialGradient {
    /// Which blocks it is of.
    pub node: TreeNode,
    /// The sum of each parameter that is trained, as layers compute with it, and whether any backward pass reached it;
    /// `None` if these blocks are empty.
    pub sums: Option<Vec<(Tensor, bool)>>,
}

/// A network for these parameters' device: the fused kernels for fp32 on a CPU, own kernels on a GPU in fp32 and bf16,
/// tensor operations elsewhere.
pub fn network(
    config: Config,
    parameters: Parameters,
    compute: DType,
    options: NetworkOptions,
) -> Result<Box<dyn TrainableModel>> {
    let device = parameters.device().clone();
    match (&device, compute) {
        (Device::Cpu, DType::F32) => Ok(Box::new(Network::new(config, parameters, Cpu::new()?, options)?)),
        #[cfg(feature = "cuda")]
        (Device::Cuda(gpu), DType::F32 | DType::BF16) => {
            let kernels = Cuda::new(CandleDevice::new(gpu)?, compute)?
                .with_attention(options.attention)
                .with_variants(options.variants);
            match kernels.attention_library(config.head_dim) {
                Ok(library) => tracing::info!(%library, "attention by cuDNN"),
                Err(reason) => tracing::info!(%reason, "attention in blocks of queries, not by cuDNN"),
            }
            let options = NetworkOptions { threads: 1, ..options };
            Ok(Box::new(Network::new(config, parameters, kernels, options)?))
        }
        _ => {
            let kernels = Portable::new(device, compute)?;
            // A single stream feeds a GPU; more threads would only take turns.
            let options = NetworkOptions { threads: 1, ..options };
            Ok(Box::new(Network::new(config, parameters, kernels, options)?))
        }
    }
}

/// A model over one set of kernels.
pub struct Network<K: Kernels> {
    config: Config,
    parameters: Parameters,
    kernels: K,
    table: K::RotaryTable,
    options: NetworkOptions,
    workers: Workers,
    /// Sums from the first [`TrainableModel::accumulate`] until [`TrainableModel::take_gradients`].
    sums: Option<Sums<K::Gradient>>,
}

impl<K: Kernels> Network<K> {
    /// A network over `parameters`, which are on the kernels' device.
    pub fn new(config: Config, parameters: Parameters, kernels: K, options: NetworkOptions) -> Result<Self> {
        config.validate()?;
        if options.threads == 0 || options.head_chunk_rows == 0 {
            let value = format!("threads {}, head_chunk_rows {}", options.threads, options.head_chunk_rows);
            return Err(ModelError::input("network options", value, "1 or more each"));
        }
        validate_blocks(&options)?;
        let table = kernels.rotary_table(&config)?;
        let workers = Workers::new(options.threads)?;
        Ok(Self { config, parameters, kernels, table, options, workers, sums: None })
    }

    /// The kernels that the network computes with.
    pub fn kernels(&self) -> &K {
        &self.kernels
    }
}

impl<K: Kernels> TrainableModel for Network<K> {
    fn config(&self) -> &Config {
        &self.config
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        self.kernels.forget_weights();
        &mut self.parameters
    }

    fn for_update(&mut self) -> (Option<&dyn OptimizerKernels>, &mut Parameters) {
        (self.kernels.optimizer(), &mut self.parameters)
    }

    fn score(&self, batches: &[Packed], temperature: f32) -> Result<Vec<Scores>> {
        validate_temperature(|| "temperature".to_owned(), temperature)?;
        let costs: Vec<_> = batches.iter().map(cost).collect();
        self.workers.run(&costs, |index| self.score_batch(&batches[index], temperature))
    }

    fn score_keeping(&self, batches: &[Packed], temperature: f32, states: &mut HiddenStates) -> Result<Vec<Scores>> {
        validate_temperature(|| "temperature".to_owned(), temperature)?;
        let costs: Vec<_> = batches.iter().map(cost).collect();
        let layers: Vec<_> = states.layers().collect();
        let found =
            self.workers.run(&costs, |index| self.score_keeping_batch(&batches[index], temperature, &layers))?;
        let kept = batches.iter().zip(found).map(|(batch, (scores, kept))| {
            states.add(batch, &kept);
            scores
        });
        Ok(kept.collect())
    }

    fn score_from(
        &self,
        batches: &[Packed],
        temperature: f32,
        states: &HiddenStates,
        layer: usize,
    ) -> Result<Vec<Scores>> {
        validate_temperature(|| "temperature".to_owned(), temperature)?;
        let costs: Vec<_> = batches.iter().map(cost).collect();
        self.workers.run(&costs, |index| self.score_batch_from(&batches[index], temperature, states, layer))
    }

    fn score_sampled(
        &self,
        batches: &[Packed],
        from: SampledFrom<'_>,
        draws: &[Vec<TokenDraw>],
    ) -> Result<Vec<Vec<SampledToken>>> {
        validate_temperature(|| "temperature".to_owned(), from.temperature)?;
        let costs: Vec<_> = batches.iter().map(cost).collect();
        let draws = |index: usize| draws.get(index).map_or(&[][..], Vec::as_slice);
        self.workers.run(&costs, |index| self.score_sampled_batch(&batches[index], from, draws(index)))
    }

    fn accumulate(&mut self, batches: &[Packed], temperature: f32, loss: &dyn TokenLoss) -> Result<()> {
        validate_temperature(|| "temperature".to_owned(), temperature)?;
        // After an error the sums are incomplete and are dropped.
        let sums = self.sums.take().unwrap_or_else(|| Sums::new(&self.options));
        self.sums = Some(sums.pass(&self.kernels, &self.parameters, &self.workers, batches, |index, sums| {
            self.train_batch(&batches[index], temperature, index, loss, sums)
        })?);
        Ok(())
    }

    fn take_gradients(&mut self) -> Result<Vec<Tensor>> {
        let sum = match self.sums.take() {
            Some(sums) => sums.finish(&self.kernels)?,
            None => None,
        };
        let sum = sum.map_or_else(|| GradientSet::zeros(&self.kernels, &self.parameters), Ok)?;
        sum.into_tensors(&self.kernels, &self.parameters)
    }

    fn take_partial_gradients(&mut self) -> Result<Vec<PartialGradient>> {
        let sums = self.sums.take().unwrap_or_else(|| Sums::new(&self.options));
        let nodes = sums.finish_share(&self.kernels)?.into_iter().map(|(node, sums)| {
            let sums = sums.map(|sums| sums.into_sums(&self.kernels, &self.parameters)).transpose()?;
            Ok(PartialGradient { node, sums })
        });
        nodes.collect()
    }

    fn discard_gradients(&mut self) {
        self.sums = None;
    }

    fn logits(&self, ids: &[u32]) -> Result<Vec<f32>> {
        self.all_logits(ids)
    }
}

/// Refuses what logits cannot be divided by. `field` names it.
pub(crate) fn validate_temperature(field: impl FnOnce() -> String, temperature: f32) -> Result<()> {
    if temperature.is_finite() && temperature > 0.0 {
        Ok(())
    } else {
        Err(ModelError::input(field(), temperature, "a finite number above 0"))
    }
}

/// The cost of a micro-batch for a thread: its tokens and its attention scores, in about the same unit.
fn cost(batch: &Packed) -> u64 {
    let scores = |segment: &Segment| segment.rows.length * (segment.keys() + segment.prefix.length);
    (256 * batch.ids().len() + batch.segments().iter().map(scores).sum::<usize>()) as u64
}
