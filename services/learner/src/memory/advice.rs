//! What to change where memory is short.

use std::fmt;

use evenkeel_model::Recompute;

use crate::settings::{MomentsLocation, TrainingSettings};

/// A change of settings by which training needs less memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Lower `compute.micro_batch_tokens`.
    FewerTokens {
        /// Tokens of a micro-batch as the settings are.
        now: usize,
    },
    /// Lower `compute.gradient_blocks`.
    FewerBlocks {
        /// Blocks of an update as the settings are.
        now: usize,
    },
    /// Recompute selectively or fully in the backward pass.
    Recompute,
    /// Recompute fully in the backward pass, instead of selectively.
    RecomputeFully,
    /// Keep the moments in host memory.
    MomentsOnHost,
    /// Keep the moments on the device.
    MomentsOnDevice,
    /// Hold the frozen weights in bf16.
    BaseInBf16,
    /// Take one update for each batch, which needs no copy of weights and moments.
    OneUpdate,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewerTokens { now } => write!(f, "lower compute.micro_batch_tokens (now {now})"),
            Self::FewerBlocks { now } => write!(f, "lower compute.gradient_blocks (now {now}; other last bits)"),
            Self::Recompute => f.write_str("set compute.recompute = selective or full"),
            Self::RecomputeFully => f.write_str("set compute.recompute = full"),
            Self::MomentsOnHost => f.write_str("set optimizer.moments = host"),
            Self::MomentsOnDevice => f.write_str("set optimizer.moments = device"),
            Self::BaseInBf16 => f.write_str("set lora.base_type = bf16 (for files that store their matrices so)"),
            Self::OneUpdate => f.write_str("take one update for each batch (mini_batch_groups = 0, epochs = 1)"),
        }
    }
}

impl Advice {
    /// What makes a learner need less of its device.
    pub(super) fn for_device(settings: &TrainingSettings) -> Vec<Self> {
        let compute = &settings.compute;
        let mut advice = Vec::new();
        if settings.has_wide_base() {
            advice.push(Self::BaseInBf16);
        }
        advice.push(Self::FewerTokens { now: compute.resolved_micro_batch_tokens() });
        match compute.recompute {
            Recompute::None => advice.push(Self::Recompute),
            Recompute::Selective => advice.push(Self::RecomputeFully),
            Recompute::Full => {}
        }
        if settings.optimizer.moments == MomentsLocation::Device {
            advice.push(Self::MomentsOnHost);
        }
        if compute.gradient_blocks > 1 {
            advice.push(Self::FewerBlocks { now: compute.gradient_blocks });
        }
        advice.extend(Self::one_update(settings));
        advice
    }

    /// What makes it need less of the host.
    pub(super) fn for_host(settings: &TrainingSettings) -> Vec<Self> {
        std::iter::once(Self::MomentsOnDevice).chain(Self::one_update(settings)).collect()
    }

    fn one_update(settings: &TrainingSettings) -> Option<Self> {
        (!settings.is_single_update()).then_some(Self::OneUpdate)
    }
}
