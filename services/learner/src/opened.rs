//! The parameters that a training begins with: those of a folder, or adapters beside them.

use std::path::Path;
use std::sync::Arc;

use candle_core::{DType, Device};
use evenkeel_model::folder::{AdapterBase, StoredTrained, load_parameters, load_parameters_in_bf16};
use evenkeel_model::{BaseWeights, Config, Parameters};

use crate::error::{LearnerError, Result};
use crate::settings::{BaseType, LoraSettings, TrainingSettings};

/// A model that was opened for training.
pub(crate) struct Opened {
    pub(crate) parameters: Parameters,
    /// The model that adapters belong to.
    pub(crate) base: AdapterBase,
    /// A frozen base that others in this process may share; nobody else would find it once this is dropped.
    pub(crate) shared: Option<Arc<BaseWeights>>,
}

/// Reads the weights in a folder; with `learner.lora` they are the frozen base of adapters, which an embedded engine of
/// this process shares.
///
/// # Errors
/// A folder that cannot be read; adapters that this base cannot have; a starting adapter of another shape, or for
/// another base.
pub(crate) fn open(folder: &Path, config: &Config, device: &Device, settings: &TrainingSettings) -> Result<Opened> {
    let Some(lora) = &settings.lora else {
        let parameters = load_parameters(folder, config, device)?;
        return Ok(Opened { parameters, base: AdapterBase::default(), shared: None });
    };
    let base = AdapterBase::of_folder(folder)?;
    let is_decoders = device.is_cpu() && DType::from(settings.compute.dtype) == DType::F32;
    let share = || match lora.base_type {
        BaseType::F32 => BaseWeights::shared(folder, config.clone()),
        BaseType::Bf16 => BaseWeights::shared_in_bf16(folder, config.clone()),
    };
    let shared = is_decoders.then(share).transpose()?;
    let frozen = match (&shared, lora.base_type) {
        (Some(shared), _) => shared.parameters()?,
        (None, BaseType::F32) => load_parameters(folder, config, device)?,
        (None, BaseType::Bf16) => load_parameters_in_bf16(folder, config, device)?,
    };
    let mut parameters = with_fresh_adapters(frozen, lora)?;
    if let Some(start) = &lora.start {
        let stored = StoredTrained::open(start, config, &parameters, &base)?;
        for number in 0..parameters.trained_specs().len() {
            parameters.trained_values_mut()[number] = stored.read(number, device)?;
        }
    }
    Ok(Opened { parameters, base, shared })
}

/// Fresh adapters beside frozen parameters.
///
/// # Errors
/// A shape that no adapter of these has, by its setting.
pub(crate) fn with_fresh_adapters(frozen: Parameters, lora: &LoraSettings) -> Result<Parameters> {
    let shape = lora.shape();
    shape.validate(frozen.specs(), frozen.ids()).map_err(|error| LearnerError::Setting(error.within("lora")))?;
    Ok(frozen.with_fresh_adapters(&shape, lora.seed)?)
}
