//! The tensors of an engine's workers as its extension describes them.

use serde::Deserialize;

/// What one worker has.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct WorkerTensors {
    /// The type that it computes with, as PyTorch names it.
    pub(crate) dtype: String,
    pub(crate) tensors: Vec<WorkerTensor>,
    /// What it could not read.
    pub(crate) unread: Vec<UnreadTensor>,
}

/// A tensor of the checkpoint, or the part of it that the worker has.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct WorkerTensor {
    /// The checkpoint's name.
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u64>,
    /// Where the part begins in each dimension.
    pub(crate) start: Vec<u64>,
    /// Of the values, as [`evenkeel_model_folder::tensor_digest`] makes it.
    pub(crate) sha256: String,
}

/// A tensor whose values the worker could not read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct UnreadTensor {
    pub(crate) name: String,
    pub(crate) why: String,
}
