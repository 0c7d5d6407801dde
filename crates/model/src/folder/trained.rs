//! What is trained, in a folder: a whole model, or adapters alone.

use std::path::Path;

use candle_core::{Device, Tensor};

use super::adapter::{AdapterBase, StoredAdapter, save_adapter};
use super::load::StoredParameters;
use super::save::{SaveOptions, SavedFile, save_parameters};
use crate::config::Config;
use crate::error::Result;
use crate::parameters::{ParameterId, Parameters};

/// Writes what is trained into the existing `folder`: as a model in the layout of transformers, or as an adapter in
/// PEFT's.
///
/// # Errors
/// As [`save_parameters`].
pub fn save_trained(
    folder: &Path,
    parameters: &Parameters,
    base: &AdapterBase,
    options: SaveOptions,
) -> Result<Vec<SavedFile>> {
    match parameters.lora() {
        None => save_parameters(folder, parameters, options),
        Some(lora) => save_adapter(folder, parameters, lora, base, options),
    }
}

/// What is trained, in a folder, all of it known to be there.
pub struct StoredTrained(StoredKind);

enum StoredKind {
    Model(StoredParameters),
    Adapter(StoredAdapter),
}

impl StoredTrained {
    /// Opens what was written of parameters like these.
    ///
    /// # Errors
    /// As [`StoredParameters::open`] or [`StoredAdapter::open`]; an adapter of another shape, for another base, or with
    /// another head.
    pub fn open(folder: &Path, config: &Config, like: &Parameters, base: &AdapterBase) -> Result<Self> {
        Ok(Self(match like.lora() {
            None => StoredKind::Model(StoredParameters::open(folder, config)?),
            Some(lora) => {
                let adapter = StoredAdapter::open(folder, config)?;
                base.validate(&adapter)?;
                adapter.validate_shape(lora)?;
                adapter.validate_head(like)?;
                StoredKind::Adapter(adapter)
            }
        }))
    }

    /// A parameter in fp32, by its number among those that are trained.
    ///
    /// # Errors
    /// A value that is not finite; a failure of the file or of the device.
    pub fn read(&self, number: usize, device: &Device) -> Result<Tensor> {
        match &self.0 {
            StoredKind::Model(model) => model.read(ParameterId::at(number), device),
            StoredKind::Adapter(adapter) => adapter.read(number, device),
        }
    }

    /// Reads parameters in fp32, in the order of `numbers`.
    ///
    /// # Errors
    /// As [`read`](Self::read), of the first that fails.
    pub fn read_all(&self, numbers: &[usize], device: &Device) -> Result<Vec<Tensor>> {
        match &self.0 {
            StoredKind::Model(model) => {
                let ids: Vec<_> = numbers.iter().map(|&number| ParameterId::at(number)).collect();
                model.read_all(&ids, device)
            }
            StoredKind::Adapter(adapter) => numbers.iter().map(|&number| adapter.read(number, device)).collect(),
        }
    }
}
