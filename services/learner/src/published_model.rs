//! A network over published weights: what an engine that holds them computes, in fp32.
//!
//! Tensors are read from the folders of published versions. Those that the learner itself holds to the same bits are
//! shared and not read. At most one set of other tensors is in memory, and of it only what differs is read again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use candle_core::{DType, Tensor};
use evenkeel_host::{Size, arriving, available_memory};
use evenkeel_model::folder::StoredTrained;
use evenkeel_model::{ModelError, Packed, Scores, TrainableModel, network};
use evenkeel_model_folder::{Folder, VersionMarker};

use crate::error::{LearnerError, Result};
use crate::memory::OutOfMemory;
use crate::shared_layers::SharedLayers;
use crate::step_folder;
use crate::trainer::Trainer;

/// Choice of published tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublishedWeights {
    pub(crate) version: u64,
    /// What is not that of the version.
    pub(crate) replaced: Option<Replaced>,
    /// The type that an engine rounds them to; `None` as they are published.
    pub(crate) rounded_to: Option<DType>,
}

/// Tensors that are not those of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Replaced {
    /// Parameters that come from another version, by their numbers among those that are trained, and that version.
    Group(Vec<usize>, u64),
    /// Without adapters: the base is computed.
    Base,
}

/// Where a tensor of the network comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TensorOrigin {
    /// The weights in training, which updates change.
    Live,
    Stored {
        version: u64,
        rounded_to: Option<DType>,
    },
    /// The tensor is all zeros.
    Zero,
    /// For an empty tensor.
    None,
}

/// The network and its tensors.
pub(crate) struct PublishedModel {
    folder: PathBuf,
    dtype: DType,
    /// The version under which the weights in training were published.
    live: Option<u64>,
    network: Option<Box<dyn TrainableModel>>,
    /// Origin of each parameter.
    origins: Vec<TensorOrigin>,
    shared: SharedLayers<TensorOrigin>,
}

impl PublishedModel {
    /// For the folder of published weights and the type in which they are published.
    pub(crate) fn new(folder: PathBuf, dtype: DType) -> Self {
        Self { folder, dtype, live: None, network: None, origins: Vec::new(), shared: SharedLayers::default() }
    }

    /// Notes that the weights in training were published as that version, or that they were replaced by others: folders
    /// may have changed.
    pub(crate) fn published(&mut self, live: Option<u64>) {
        self.forget();
        self.live = live;
    }

    /// Drops all tensors and hidden states.
    pub(crate) fn forget(&mut self) {
        self.clear();
        self.shared = SharedLayers::default();
    }

    /// Drops all tensors, which may be in a GPU's memory. Returns whether there were any.
    pub(crate) fn clear(&mut self) -> bool {
        self.origins.clear();
        self.network.take().is_some()
    }

    /// Drops those of the weights in training, which do not stay what they are.
    pub(crate) fn release_live(&mut self) {
        let Some(network) = &mut self.network else { return };
        let values = network.parameters_mut().trained_values_mut();
        for (value, origin) in
            values.iter_mut().zip(&mut self.origins).filter(|(_, origin)| **origin == TensorOrigin::Live)
        {
            // Memory alone is at stake: without this, they are dropped at the next use.
            if let Ok(empty) = Tensor::zeros((), DType::F32, value.device()) {
                (*value, *origin) = (empty, TensorOrigin::None);
            }
        }
    }

    /// Log-probabilities and entropies under these weights, with the bits of a whole pass.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub(crate) fn score(
        &mut self,
        trainer: &Trainer,
        weights: &PublishedWeights,
        batches: &[Packed],
        temperature: f32,
    ) -> Result<Vec<Scores>> {
        let (network, origins, shared) = self.fill(trainer, weights)?;
        let whole = weights.replaced.is_none().then_some(weights.version);
        Ok(shared.score(network, origins, whole, batches, temperature)?)
    }

    /// The network with these weights.
    ///
    /// # Errors
    /// [`LearnerError::WeightsGone`] for a version without a folder, [`LearnerError::NoRoom`] where they do not fit
    /// into memory; a folder that cannot be read.
    pub(crate) fn with(&mut self, trainer: &Trainer, weights: &PublishedWeights) -> Result<&dyn TrainableModel> {
        Ok(self.fill(trainer, weights)?.0)
    }

    /// The network with these weights, the origin of each parameter, and what earlier passes have left.
    #[tracing::instrument(level = "debug", skip_all, fields(version = weights.version))]
    fn fill(
        &mut self,
        trainer: &Trainer,
        weights: &PublishedWeights,
    ) -> Result<(&dyn TrainableModel, &[TensorOrigin], &mut SharedLayers<TensorOrigin>)> {
        let mut wanted = vec![
            self.origin(trainer, weights.version, weights.rounded_to);
            trainer.parameters().trained_values().len()
        ];
        let mut versions = vec![weights.version];
        match &weights.replaced {
            None => {}
            Some(Replaced::Group(group, version)) => {
                let origin = self.origin(trainer, *version, weights.rounded_to);
                group.iter().for_each(|&number| wanted[number] = origin);
                versions.push(*version);
            }
            Some(Replaced::Base) => wanted.fill(TensorOrigin::Zero),
        }
        let mut folders = BTreeMap::new();
        for version in versions {
            folders.insert(version, self.open(trainer, version)?);
        }
        // After an error there is none, and nothing is left of what was read.
        let held = self.network.take();
        let filled = self.filled(held, trainer, &wanted, &folders).map_err(|error| match error {
            LearnerError::Model(error) if OutOfMemory::is(&error) => LearnerError::NoRoom(error.to_string()),
            other => other,
        })?;
        Ok((&**self.network.insert(filled), &self.origins, &mut self.shared))
    }

    fn origin(&self, trainer: &Trainer, version: u64, rounded_to: Option<DType>) -> TensorOrigin {
        let rounded_to = rounded_to.filter(|&dtype| dtype != DType::F32 && dtype != self.dtype);
        let is_live = self.live == Some(version) && trainer.version() == version && self.dtype == DType::F32;
        match (is_live, rounded_to) {
            (true, None) => TensorOrigin::Live,
            _ => TensorOrigin::Stored { version, rounded_to },
        }
    }

    /// The complete folder of a version.
    fn open(&self, trainer: &Trainer, version: u64) -> Result<StoredTrained> {
        let path = step_folder::find_version(&self.folder, version);
        let gone = || LearnerError::WeightsGone { version, path: path.clone() };
        arriving::read_in_place(&path, |place| {
            match VersionMarker::read(&Folder::new(place)) {
                Ok(marker) if marker.version == version => {}
                _ => return Err(gone()),
            }
            StoredTrained::open(place, trainer.config(), trainer.parameters(), trainer.base()).map_err(|error| {
                match error {
                    // Removed meanwhile.
                    ModelError::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => gone(),
                    other => other.into(),
                }
            })
        })
    }

    /// The network that is held, or a new one, with each tensor that of its wanted origin.
    fn filled(
        &mut self,
        held: Option<Box<dyn TrainableModel>>,
        trainer: &Trainer,
        wanted: &[TensorOrigin],
        folders: &BTreeMap<u64, StoredTrained>,
    ) -> Result<Box<dyn TrainableModel>> {
        let live = trainer.parameters();
        let device = trainer.parameters().device();
        let mut filled = match held {
            Some(held) => held,
            None => {
                self.origins = vec![TensorOrigin::Live; wanted.len()];
                let options = trainer.settings().compute.network_options();
                network(trainer.config().clone(), live.clone(), DType::F32, options)?
            }
        };
        let values = filled.parameters_mut().trained_values_mut();
        let origins = &mut self.origins;
        // What is not wanted gives its memory back before anything is read.
        let mut missing = Vec::new();
        for (at, &wanted) in wanted.iter().enumerate() {
            if wanted == TensorOrigin::Live || wanted != origins[at] {
                (values[at], origins[at]) = (live.trained_values()[at].clone(), TensorOrigin::Live);
            }
            match wanted {
                TensorOrigin::Stored { version, rounded_to } if origins[at] == TensorOrigin::Live => {
                    missing.push((at, version, rounded_to));
                }
                TensorOrigin::Zero if origins[at] == TensorOrigin::Live => {
                    (values[at], origins[at]) = (live.trained_values()[at].zeros_like()?, TensorOrigin::Zero);
                }
                _ => {}
            }
        }
        let needed = missing.iter().map(|&(at, ..)| 4 * live.trained_values()[at].elem_count() as u64).sum();
        if device.is_cpu() {
            validate_room(needed, available_memory())?;
        }
        // Each wanted version was opened.
        for (version, folder) in folders {
            let of_version: Vec<_> = missing.iter().filter(|(_, wanted, _)| wanted == version).copied().collect();
            let numbers: Vec<_> = of_version.iter().map(|&(at, ..)| at).collect();
            for ((at, version, rounded_to), stored) in of_version.into_iter().zip(folder.read_all(&numbers, device)?) {
                values[at] = match rounded_to {
                    Some(dtype) => stored.to_dtype(dtype)?.to_dtype(DType::F32)?,
                    None => stored,
                };
                origins[at] = TensorOrigin::Stored { version, rounded_to };
            }
        }
        Ok(filled)
    }
}

/// Refuses what the machine does not have: on a CPU the system would end the process instead.
fn validate_room(needed: u64, available: Option<u64>) -> Result<()> {
    match available.filter(|&available| available < needed) {
        None => Ok(()),
        Some(available) => Err(LearnerError::NoRoom(format!("{} needed, {} available", Size(needed), Size(available)))),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_model::{Config, NetworkOptions, Parameters, tensor_groups};

    use super::*;
    use crate::{Learner, PublishOptions, TrainingSettings, test_model};

    #[test]
    fn weights_that_do_not_fit_are_refused_with_both_sizes() {
        assert!(validate_room(1 << 30, Some(1 << 30)).is_ok() && validate_room(1 << 30, None).is_ok());
        let text = validate_room(3 << 30, Some(1 << 30)).unwrap_err().to_string();
        assert!(text.contains("3.0 GiB needed, 1.0 GiB available"), "{text}");
    }

    #[test]
    fn a_stale_group_begins_with_what_the_published_weights_have_left() {
        let config = Config { num_layers: 3, ..test_model::config() };
        let random = |seed| Parameters::random(&config, seed, 0.2, &candle_core::Device::Cpu).unwrap();
        let mut learner = Learner::new(config.clone(), random(1), TrainingSettings::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        learner.publish(folder.path(), PublishOptions::default()).unwrap();
        learner.train(test_model::groups()).unwrap();
        let mut model = PublishedModel::new(folder.path().to_owned(), DType::F32);
        model.published(Some(1));
        learner.publish(folder.path(), PublishOptions::default()).unwrap();
        let mut text = Packed::default();
        text.push(&config, &[2, 3, 4, 5], 1..4).unwrap();
        let groups = tensor_groups(&random(1));
        let score = |model: &mut PublishedModel, name: &str| {
            let group = groups.iter().find(|group| group.name == name).unwrap();
            let replaced = Replaced::Group(group.parameters.clone(), 0);
            let weights = PublishedWeights { version: 1, replaced: Some(replaced), rounded_to: None };
            model.score(learner.trainer(), &weights, std::slice::from_ref(&text), 1.0).unwrap()[0].logp.clone()
        };
        let wanted = ["mlp", "layer 2"].map(|name| score(&mut model, name));
        // Left by another network under the same label.
        let other = network(config.clone(), random(2), DType::F32, NetworkOptions::default()).unwrap();
        let origins = vec![TensorOrigin::Live; random(1).trained().len()];
        model.shared.score(&*other, &origins, Some(1), std::slice::from_ref(&text), 1.0).unwrap();
        let found = ["mlp", "layer 2"].map(|name| score(&mut model, name));
        assert!(found[0] == wanted[0] && found[1] != wanted[1], "{found:?} {wanted:?}");
    }
}
