//! The sets of kernels that a device has.

use anyhow::Result;
use candle_core::{DType, Device};
use evenkeel_model::kernels::portable::Portable;
use evenkeel_model::{Config, Network, NetworkOptions, Parameters, Recompute, TrainableModel, network};

/// A set of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelPath {
    Portable,
    /// What the learner chooses: on a GPU Evenkeel's own kernels and cuBLASLt.
    Chosen,
}

impl KernelPath {
    /// The paths that are checked and timed on a device.
    pub(crate) fn on(device: &Device) -> &'static [Self] {
        if device.is_cuda() { &[Self::Chosen, Self::Portable] } else { &[Self::Portable] }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Chosen => "own",
        }
    }

    /// A network over parameters on their device.
    pub(crate) fn network(
        self,
        config: Config,
        parameters: Parameters,
        dtype: DType,
    ) -> Result<Box<dyn TrainableModel>> {
        self.network_with(config, parameters, dtype, Recompute::None)
    }

    /// A network on this path, with activations computed again in the backward pass or kept.
    pub(crate) fn network_with(
        self,
        config: Config,
        parameters: Parameters,
        dtype: DType,
        recompute: Recompute,
    ) -> Result<Box<dyn TrainableModel>> {
        self.network_by(config, parameters, dtype, NetworkOptions { recompute, ..NetworkOptions::default() })
    }

    /// A network on this path, by all options.
    pub(crate) fn network_by(
        self,
        config: Config,
        parameters: Parameters,
        dtype: DType,
        options: NetworkOptions,
    ) -> Result<Box<dyn TrainableModel>> {
        Ok(match self {
            Self::Portable => {
                let kernels = Portable::new(parameters.device().clone(), dtype)?;
                Box::new(Network::new(config, parameters, kernels, options)?)
            }
            Self::Chosen => network(config, parameters, dtype, options)?,
        })
    }
}
