//! The tensors of an engine's workers as its extension describes them.

use serde::Deserialize;

/// What one worker has.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct WorkerTensors {
    /// The type that it computes with, as PyTorch names it.
    pub dtype: String,
    pub tensors: Vec<WorkerTensor>,
    /// Tensors that could not be read.
    pub unread: Vec<UnreadTensor>,
}

/// A tensor of the checkpoint, or the part of it that the worker has.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct WorkerTensor {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    /// Where the part begins in each dimension.
    pub start: Vec<u64>,
    /// Digest of the values, as [`evenkeel_model_folder::tensor_digest`] makes it.
    pub sha256: String,
}

/// A tensor whose values the worker could not read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct UnreadTensor {
    pub name: String,
    pub why: String,
}
