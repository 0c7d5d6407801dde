//! Dense Qwen2 and Qwen3 decoders, to be trained and to be sampled from.
//!
//! - [`Config`], [`Parameters`], [`folder`]: from and to Hugging Face folders.
//! - [`Packed`] and [`Train`]: packed sequences through a forward and a backward written out by hand over a handful
//!   of kernels ([`kernels`]); the caller's [`TokenLoss`] turns log-probabilities and entropies into coefficients.
//! - [`Decoder`]: many sequences of different lengths at once over a KV cache.
//! - [`fresh`]: a new model with random weights and a tokenizer of characters.
//!
//! The crate knows nothing of rewards, groups or services.

pub mod config;
pub mod decode;
mod error;
pub mod folder;
pub mod fresh;
pub mod kernels;
mod network;
mod pack;
mod parameters;

pub use config::{Config, Family};
pub use decode::{Decoder, SequenceCache};
pub use error::{BoxError, ModelError, Result};
pub use kernels::{Coefficients, Scores};
pub use network::{Network, NetworkOptions, TokenLoss, Train, network};
pub use pack::{Packed, check_ids};
pub use parameters::{LayerIds, LinearIds, ModelIds, ParameterId, ParameterSpec, Parameters, parameter_specs};
