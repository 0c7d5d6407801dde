//! Dense decoders (Llama, Mistral, Qwen2, Qwen3, SmolLM3), for training and for sampling.
//!
//! - [`Config`], [`Parameters`], [`folder`]: reading and writing Hugging Face folders.
//! - [`Packed`] and [`TrainableModel`]: packed sequences through a forward and a backward pass written by hand over a
//!   few kernels ([`kernels`]); the caller's [`TokenLoss`] turns log-probabilities and entropies into coefficients.
//! - [`Decoder`]: decodes many sequences of different lengths at once over a KV cache.
//! - [`sampling`]: draws a token from a row of logits.
//! - [`gguf`]: models of llama.cpp as such folders.
//! - [`fresh`]: a new model with random weights and a character tokenizer.
//!
//! The crate knows nothing of rewards, groups or services.
#![warn(missing_docs)]

pub mod config;
mod count;
pub mod decode;
mod device;
mod error;
mod failure;
pub mod folder;
pub mod fresh;
pub mod gguf;
mod hidden_states;
pub mod kernels;
mod network;
mod pack;
mod parallel;
mod parameters;
#[cfg(feature = "cuda")]
mod pinned;
#[cfg(feature = "cuda")]
mod pool;
pub mod sampling;
mod segment;
mod staging;
mod tensor_groups;

pub use config::{Architecture, Biases, Config, Rope, RopeScaling, Yarn};
pub use count::{count_pass, count_update_from_host};
pub use decode::{BaseWeights, Decoder, KvCache};
pub use device::{GpuMemory, attention_library, cuda_device, empty_cache, gpu_memory, reset_peak_memory};
pub use error::{BoxError, ModelError, Result};
pub use failure::DeviceFailure;
pub use hidden_states::HiddenStates;
pub use kernels::cuda::{AttentionFallback, AttentionLibrary};
pub use kernels::{Coefficients, Scores};
pub use network::{
    BlockShare, Network, NetworkOptions, PartialGradient, Recompute, TokenLoss, TrainableModel, TreeNode,
    fewest_gradients, gradients_of_sums, most_gradients, network, nodes_of, sum_of_nodes,
};
pub use pack::{Packed, validate_ids};
pub use parameters::lora::{LinearModule, LoraShape};
pub use parameters::{
    AdapterIds, LayerIds, LinearIds, ModelIds, ParameterId, ParameterKind, ParameterSpec, Parameters, parameter_specs,
};
pub use segment::{RowSpan, Segment};
pub use tensor_groups::{TensorGroup, tensor_groups};
