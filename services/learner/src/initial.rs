//! Return to the weights that a learner was opened with.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use evenkeel_model::folder::StoredParameters;
use evenkeel_model::kernels::Moment;
use evenkeel_model::{Config, ParameterId, ParameterSpec, parameter_specs};

use crate::error::{LearnerError, Result};
use crate::optimizer::UpdateCounts;
use crate::source::ModelSource;
use crate::trainer::{StoredCounters, StoredState, Trainer};

/// Restores version 0 from the model's folder. Reads nothing if nothing was trained.
///
/// # Errors
/// A model without a folder, or a folder that does not hold a model of this shape any more: the trainer is unchanged. If a file or the
/// device fails after that was checked, the trainer refuses to work until something is restored.
#[tracing::instrument(skip_all)]
pub(crate) fn restore(trainer: &mut Trainer, source: &ModelSource) -> Result<()> {
    if trainer.version() == 0 && trainer.check_whole().is_ok() {
        return Ok(());
    }
    let Some(folder) = source.folder() else {
        return Err(LearnerError::NoModelFolder);
    };
    let (config, _) = Config::load(folder)?;
    if config != *trainer.config() {
        let allowed = "a folder that still has the architecture with which the learner was started";
        return Err(LearnerError::setting("model", folder.display(), allowed));
    }
    let initial =
        Initial { folder, weights: StoredParameters::open(folder, &config)?, specs: parameter_specs(&config).0 };
    let seed = trainer.settings().seed;
    trainer.restore(&initial, StoredCounters { optimizer: UpdateCounts::START, version: 0, seed })
}

/// The weights of a folder, with moments of zero.
struct Initial<'a> {
    folder: &'a Path,
    weights: StoredParameters,
    specs: Vec<ParameterSpec>,
}

impl StoredState for Initial<'_> {
    fn folder(&self) -> &Path {
        self.folder
    }

    fn weights(&self, parameter: usize, device: &Device) -> Result<Tensor> {
        Ok(self.weights.read(ParameterId::at(parameter), device)?)
    }

    fn moment(&self, _moment: Moment, parameter: usize, device: &Device) -> Result<Tensor> {
        Ok(Tensor::zeros(self.specs[parameter].shape.as_slice(), DType::F32, device)?)
    }
}
