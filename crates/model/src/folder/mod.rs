//! Hugging Face model folders: `config.json` and safetensors, in one file or in shards with an index.

mod finite;
mod load;
mod save;
mod tensors;

pub use load::{StoredParameters, StoredTensors, check_values, load_parameters};
pub use save::{SaveOptions, SavedFile, config_text, save_config, save_parameters};
pub use tensors::{NamedValues, Values, write_tensors};

#[cfg(test)]
mod tests;
