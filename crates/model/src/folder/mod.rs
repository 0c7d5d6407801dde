//! Hugging Face model folders: `config.json` and safetensors, in one file or in shards with an index.

mod load;
mod save;
mod tensors;

pub use load::{StoredParameters, StoredTensors, load_parameters};
pub use save::{SaveOptions, SavedFile, save_config, save_parameters};
pub use tensors::{NamedValues, Values, write_tensors};

/// The single file of an unsharded model.
pub(crate) const SINGLE: &str = "model.safetensors";
/// The index of a sharded model.
pub(crate) const INDEX: &str = "model.safetensors.index.json";

#[cfg(test)]
mod tests;
