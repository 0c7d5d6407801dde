//! What memory is used for.

use std::fmt;

use crate::terms::LossTerm;

/// What a part of the memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUse {
    /// The fp32 weights.
    Weights,
    /// The weights beside which adapters are trained.
    FrozenWeights,
    /// The fp32 gradients.
    Gradients,
    /// Their memory that is kept for the next update.
    KeptGradients,
    /// The fp32 moments, on the device.
    Moments,
    /// The fp32 moments, page-locked in host memory.
    PinnedMoments,
    /// The fp32 weights of a network that a term of the loss refers to.
    ReferenceWeights,
    /// The fp32 weights of a teacher.
    TeacherWeights,
    /// The weights before a step of several updates.
    WeightsBefore,
    /// The moments before a step of several updates.
    MomentsBefore,
    /// The weights and moments before a step of several updates.
    StateBefore,
    /// Activations and workspace of a pass.
    Activations,
    /// What is lost between blocks of the pool.
    Fragmentation,
    /// The driver, CUDA's libraries and their kernels.
    Libraries,
}

impl MemoryUse {
    /// The weights of the network of a term of the loss.
    pub(super) fn of_network(term: &dyn LossTerm) -> Self {
        if term.refers_to_initial_weights() { Self::ReferenceWeights } else { Self::TeacherWeights }
    }
}

impl fmt::Display for MemoryUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Weights => "weights, fp32",
            Self::FrozenWeights => "frozen weights",
            Self::Gradients => "gradients, fp32",
            Self::KeptGradients => "gradients of further blocks, fp32, kept for the next update",
            Self::Moments => "moments, fp32",
            Self::PinnedMoments => "moments, fp32, page-locked",
            Self::ReferenceWeights => "weights of the reference, fp32",
            Self::TeacherWeights => "weights of the teacher, fp32",
            Self::WeightsBefore => "weights before the step, fp32",
            Self::MomentsBefore => "moments before the step, fp32",
            Self::StateBefore => "weights and moments before the step, fp32",
            Self::Activations => "activations and workspace of a pass",
            Self::Fragmentation => "lost between blocks (estimate)",
            Self::Libraries => "driver and libraries (estimate)",
        })
    }
}
