//! Return to the weights that a learner was opened with.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use evenkeel_model::folder::StoredTrained;
use evenkeel_model::kernels::Moment;
use evenkeel_model::{Config, ParameterSpec, Parameters};

use crate::error::{LearnerError, Result};
use crate::optimizer::UpdateCounts;
use crate::publish::{Published, verify_published};
use crate::settings::LoraSettings;
use crate::source::ModelSource;
use crate::terms::TermStates;
use crate::trainer::{StoredCounters, StoredState, Trainer};

/// Restores version 0 from the model's folder. Reads nothing if nothing was trained.
///
/// # Errors
/// A model without a folder, or a folder that does not hold a model of this shape any more: the trainer is unchanged.
/// If a file or the device fails after that was checked, the trainer refuses to work until something is restored.
#[tracing::instrument(skip_all)]
pub(crate) fn restore(trainer: &mut Trainer, source: &ModelSource) -> Result<()> {
    if trainer.version() == 0 && trainer.check_whole().is_ok() {
        return Ok(());
    }
    restore_seeded(trainer, source, None)
}

/// Restores as [`restore`] does, whatever was trained, with fresh adapters of another seed than that of the settings.
///
/// # Errors
/// As [`restore`]; a seed where the settings name weights to begin with.
pub(crate) fn restore_seeded(trainer: &mut Trainer, source: &ModelSource, seed_of_adapters: Option<u64>) -> Result<()> {
    let Some(folder) = source.folder() else {
        return Err(LearnerError::NoModelFolder);
    };
    let (config, _) = Config::load(folder)?;
    if config != *trainer.config() {
        let allowed = "a folder that still has the architecture with which the learner was started";
        return Err(LearnerError::setting("model", folder.display(), allowed));
    }
    let parameters = trainer.parameters();
    let draws = trainer.settings().lora.as_ref().is_some_and(|lora| lora.start.is_none());
    if let Some(seed) = seed_of_adapters.filter(|_| !draws) {
        let allowed = "absent: nothing is drawn, since learner.lora has `start` or is absent";
        return Err(LearnerError::input("adapter_seed", seed, allowed));
    }
    let weights = match (&trainer.settings().lora, parameters.lora()) {
        (Some(LoraSettings { start: None, seed, .. }), Some(_)) => {
            Weights::Fresh(parameters.clone(), seed_of_adapters.unwrap_or(*seed))
        }
        (Some(LoraSettings { start: Some(start), .. }), Some(_)) => {
            Weights::Stored(StoredTrained::open(start, &config, parameters, trainer.base())?)
        }
        _ => Weights::Stored(StoredTrained::open(folder, &config, parameters, trainer.base())?),
    };
    begin_with(trainer, folder, weights, 0)
}

/// Takes the weights of a published version, with moments of zero: what an update computes before the optimizer.
///
/// # Errors
/// Weights that do not match the digest in their marker, or are of another shape: the trainer is unchanged.
#[tracing::instrument(skip_all, fields(path = %folder.display()))]
pub(crate) fn restore_published(trainer: &mut Trainer, folder: &Path) -> Result<()> {
    let Published { version, .. } = verify_published(folder)?;
    let stored = StoredTrained::open(folder, trainer.config(), trainer.parameters(), trainer.base())?;
    begin_with(trainer, folder, Weights::Stored(stored), version)
}

/// Takes weights as a version, with moments of zero.
fn begin_with(trainer: &mut Trainer, folder: &Path, weights: Weights, version: u64) -> Result<()> {
    let initial = Initial { folder, weights, specs: trainer.parameters().trained_specs().to_vec() };
    let seed = trainer.settings().seed;
    trainer
        .restore(&initial, StoredCounters { optimizer: UpdateCounts::START, version, seed, terms: TermStates::new() })
}

/// The weights that a training begins with.
enum Weights {
    /// Weights of a folder.
    Stored(StoredTrained),
    /// Fresh adapters like these, of a seed.
    Fresh(Parameters, u64),
}

/// Initial weights, with moments of zero.
struct Initial<'a> {
    folder: &'a Path,
    weights: Weights,
    specs: Vec<ParameterSpec>,
}

impl StoredState for Initial<'_> {
    fn folder(&self) -> &Path {
        self.folder
    }

    fn weights(&self, parameter: usize, device: &Device) -> Result<Tensor> {
        match &self.weights {
            Weights::Stored(stored) => Ok(stored.read(parameter, device)?),
            Weights::Fresh(like, seed) => Ok(like.fresh_adapter(parameter, *seed)?),
        }
    }

    fn moment(&self, _moment: Moment, parameter: usize, device: &Device) -> Result<Tensor> {
        Ok(Tensor::zeros(self.specs[parameter].shape.as_slice(), DType::F32, device)?)
    }
}
