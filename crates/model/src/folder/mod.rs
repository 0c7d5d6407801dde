//! Hugging Face model folders: `config.json` and safetensors, in one file or in shards with an index; and those of LoRA
//! adapters.

mod adapter;
mod finite;
mod load;
mod mapped;
mod save;
mod tensors;
mod trained;

pub use adapter::{AdapterBase, StoredAdapter};
pub use load::{StoredParameters, StoredTensors, check_values, load_parameters, load_parameters_in_bf16};
pub use save::{SaveOptions, SavedFile, config_text, save_config, save_parameters};
pub use tensors::{NamedShape, TensorsFile, Values};
pub use trained::{StoredTrained, save_trained};

#[cfg(test)]
mod tests;
