//! Weights as decoding reads them, which several decoders and a training of adapters may share: none of them changes them.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use candle_core::{Device, Tensor};
use evenkeel_files::FileStamp;
use evenkeel_hf::{Folder, WeightFiles};

use super::layout::{Shared, layout, transposed};
use crate::config::Config;
use crate::error::{ModelError, Result};
use crate::folder::StoredParameters;
use crate::kernels::cpu::reads_weights_by_rows;
use crate::parameters::{ParameterSpec, Parameters, parameter_specs};

/// A model's weights on a CPU, laid out for decoding.
pub struct BaseWeights {
    config: Config,
    /// By parameter id. Where the kernels do not read matrices by their rows, those of linear layers are stored (in, out), so that one new token
    /// reads them in order.
    weights: Vec<Tensor>,
    /// A tied head, stored by its columns, once a decoder needs it.
    head: OnceLock<Tensor>,
}

/// Those of this process that somebody holds, by their files.
static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

struct Held {
    files: Vec<FileStamp>,
    weights: Weak<BaseWeights>,
}

impl BaseWeights {
    /// A copy of parameters, without their adapters.
    pub(super) fn copied(config: Config, parameters: &Parameters) -> Result<Self> {
        let (specs, ids) = parameter_specs(&config);
        let read = |id| Ok((parameters.get(id).clone(), Shared::Yes));
        let weights = layout(&ids, specs.len(), !reads_weights_by_rows(), read)?;
        Self::of(config, weights)
    }

    /// Reads the weights in a folder, without a copy of them beside their own.
    ///
    /// # Errors
    /// As for [`load_parameters`](crate::folder::load_parameters).
    pub fn load(folder: &Path, config: Config) -> Result<Self> {
        let stored = StoredParameters::open(folder, &config)?;
        let (specs, ids) = parameter_specs(&config);
        let read = |id| Ok((stored.read(id, &Device::Cpu)?, Shared::No));
        let weights = layout(&ids, specs.len(), !reads_weights_by_rows(), read)?;
        Self::of(config, weights)
    }

    /// The same, or those that somebody in this process holds of the same files.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn shared(folder: &Path, config: Config) -> Result<Arc<Self>> {
        let files = WeightFiles::read(&Folder::new(folder))?;
        let stamps = files.paths().map(|path| FileStamp::of(&path).map_err(ModelError::file(&path)));
        let files = stamps.collect::<Result<Vec<_>>>()?;
        // Held while they are read: who comes second waits instead of reading them again.
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|held| held.weights.strong_count() > 0);
        let same = held.iter().filter(|held| held.files == files).filter_map(|held| held.weights.upgrade());
        let wanted = shapes(&config);
        if let Some(found) = same.into_iter().find(|found| shapes(&found.config) == wanted) {
            return Ok(found);
        }
        let weights = Arc::new(Self::load(folder, config)?);
        held.push(Held { files, weights: Arc::downgrade(&weights) });
        Ok(weights)
    }

    fn of(config: Config, weights: Vec<Tensor>) -> Result<Self> {
        config.validate()?;
        Ok(Self { config, weights, head: OnceLock::new() })
    }

    /// The model's shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The weights as parameters, which share their memory: for adapters beside them, and not to be trained themselves.
    pub fn parameters(&self) -> Result<Parameters> {
        Parameters::laid_out(&self.config, self.weights.clone())
    }

    /// The head of a tied model, stored by its columns.
    pub(super) fn head_by_columns(&self) -> Result<&Tensor> {
        if let Some(head) = self.head.get() {
            return Ok(head);
        }
        let (_, ids) = parameter_specs(&self.config);
        let head = transposed(&self.weights[ids.embedding.index()])?;
        Ok(self.head.get_or_init(|| head))
    }
}

/// What two configurations must have in common for the same files to be read as the same tensors.
fn shapes(config: &Config) -> Vec<ParameterSpec> {
    parameter_specs(config).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::tiny;
    use crate::folder::{SaveOptions, save_parameters};

    fn folder(seed: u64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let parameters = Parameters::random(&tiny(), seed, 0.1, &Device::Cpu).unwrap();
        save_parameters(folder.path(), &parameters, SaveOptions::default()).unwrap();
        folder
    }

    #[test]
    fn who_opens_the_same_files_shares_their_weights_and_nobody_shares_others() {
        let (one, other) = (folder(1), folder(2));
        let shared = |folder: &tempfile::TempDir| BaseWeights::shared(folder.path(), tiny()).unwrap();
        let (first, again) = (shared(&one), shared(&one));
        assert!(Arc::ptr_eq(&first, &again));
        assert!(!Arc::ptr_eq(&first, &shared(&other)));
        // Other bytes under the same name are other weights.
        std::fs::copy(other.path().join("model.safetensors"), one.path().join("model.safetensors")).unwrap();
        assert!(!Arc::ptr_eq(&first, &shared(&one)));
        // Nothing is kept for nobody.
        let weak = Arc::downgrade(&first);
        drop((first, again));
        assert!(weak.upgrade().is_none());
    }
}
