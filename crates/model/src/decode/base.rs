//! Weights as decoding reads them, which several decoders and a training of adapters may share: none of them changes
//! them.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use candle_core::{DType, Device, Tensor};
use evenkeel_host::FileStamp;
use evenkeel_model_folder::{Folder, WeightFiles};

use super::layout::{HasOtherOwner, layout, transposed};
use crate::config::Config;
use crate::error::{ModelError, Result};
use crate::folder::StoredParameters;
use crate::kernels::cpu::reads_weights_by_rows;
use crate::parameters::{ParameterSpec, Parameters, parameter_specs};

/// A model's weights on a CPU, laid out for decoding.
pub struct BaseWeights {
    config: Config,
    /// By parameter id, in fp32, or matrices in bf16 and row by row. Where the kernels do not read matrices by their
    /// rows, those of linear layers are stored (in, out), so that one new token reads them in order.
    weights: Vec<Tensor>,
    /// A tied head, stored by its columns, once a decoder needs it.
    head: OnceLock<Tensor>,
}

/// Weights that are in use in this process, with the stamps of their files.
static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

struct Held {
    files: Vec<FileStamp>,
    weights: Weak<BaseWeights>,
}

impl BaseWeights {
    /// A copy of parameters, without their adapters.
    pub(super) fn copied(config: Config, parameters: &Parameters) -> Result<Self> {
        let (specs, ids) = parameter_specs(&config);
        let read = |id| Ok((parameters.get(id).clone(), HasOtherOwner::Yes));
        let weights = layout(&ids, specs.len(), !reads_weights_by_rows(), read)?;
        Self::of(config, weights)
    }

    /// Weights that were just written to a folder, for decoders in this process, which [share](Self::shared) them
    /// instead of reading them. From here on nobody may change the values of these parameters where they are. `None`
    /// where decoding needs another layout or another device, or where adapters are trained.
    ///
    /// # Errors
    /// A folder without weights.
    pub fn lent(folder: &Path, config: &Config, parameters: &Parameters) -> Result<Option<Arc<Self>>> {
        if !reads_weights_by_rows() || !parameters.device().is_cpu() || parameters.lora().is_some() {
            return Ok(None);
        }
        let files = stamps(folder)?;
        let weights = Arc::new(Self::of(config.clone(), parameters.values().to_vec())?);
        held().push(Held { files, weights: Arc::downgrade(&weights) });
        Ok(Some(weights))
    }

    /// Reads the weights in a folder, without a copy of them beside their own.
    ///
    /// # Errors
    /// As for [`load_parameters`](crate::folder::load_parameters).
    pub fn load(folder: &Path, config: Config) -> Result<Self> {
        let stored = StoredParameters::open(folder, &config)?;
        let (specs, ids) = parameter_specs(&config);
        let read = |id| Ok((stored.read(id, &Device::Cpu)?, HasOtherOwner::No));
        let weights = layout(&ids, specs.len(), !reads_weights_by_rows(), read)?;
        Self::of(config, weights)
    }

    /// Reads the weights with matrices in bf16. They take half the memory and compute to equal bits, since the files
    /// store them in bf16.
    ///
    /// # Errors
    /// As [`load`](Self::load); a matrix that is stored in another type.
    pub fn load_in_bf16(folder: &Path, config: Config) -> Result<Self> {
        let stored = StoredParameters::open(folder, &config)?;
        stored.refuse_wider_than_bf16()?;
        let (specs, ids) = parameter_specs(&config);
        let read = |id| Ok((stored.read_narrow(id, &Device::Cpu)?, HasOtherOwner::No));
        let weights = layout(&ids, specs.len(), !reads_weights_by_rows(), read)?;
        Self::of(config, weights)
    }

    /// Reads weights as [`load`](Self::load) does, or shares those that this process already has of these files, in
    /// whichever type.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn shared(folder: &Path, config: Config) -> Result<Arc<Self>> {
        Self::held_or(folder, config, Self::load)
    }

    /// Reads weights as [`load_in_bf16`](Self::load_in_bf16) does, or shares those that this process already has of
    /// these files, in whichever type.
    ///
    /// # Errors
    /// As [`load_in_bf16`](Self::load_in_bf16).
    pub fn shared_in_bf16(folder: &Path, config: Config) -> Result<Arc<Self>> {
        // Also if the weights are held already: the answer must not depend on who came first.
        StoredParameters::open(folder, &config)?.refuse_wider_than_bf16()?;
        Self::held_or(folder, config, Self::load_in_bf16)
    }

    fn held_or(folder: &Path, config: Config, load: impl FnOnce(&Path, Config) -> Result<Self>) -> Result<Arc<Self>> {
        let files = stamps(folder)?;
        // Held while they are read: who comes second waits instead of reading them again.
        let mut held = held();
        let same = held.iter().filter(|held| held.files == files).filter_map(|held| held.weights.upgrade());
        let wanted = shapes(&config);
        if let Some(found) = same.into_iter().find(|found| shapes(&found.config) == wanted) {
            return Ok(found);
        }
        let weights = Arc::new(load(folder, config)?);
        held.push(Held { files, weights: Arc::downgrade(&weights) });
        Ok(weights)
    }

    fn of(config: Config, weights: Vec<Tensor>) -> Result<Self> {
        config.validate()?;
        Ok(Self { config, weights, head: OnceLock::new() })
    }

    /// Sizes and capabilities of the model.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The weights as parameters, which share their memory: for adapters beside them, and not to be trained themselves.
    pub fn parameters(&self) -> Result<Parameters> {
        Parameters::laid_out(&self.config, self.weights.clone())
    }

    /// The head of a tied model, stored by its columns; in bf16 the embedding itself.
    pub(super) fn head_by_columns(&self) -> Result<&Tensor> {
        if let Some(head) = self.head.get() {
            return Ok(head);
        }
        let (_, ids) = parameter_specs(&self.config);
        let embedding = &self.weights[ids.embedding.index()];
        let head = match embedding.dtype() {
            DType::BF16 => embedding.clone(),
            _ => transposed(embedding)?,
        };
        Ok(self.head.get_or_init(|| head))
    }
}

/// What this process has in use.
fn held() -> MutexGuard<'static, Vec<Held>> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.retain(|held| held.weights.strong_count() > 0);
    held
}

/// The stamps of a folder's weight files.
fn stamps(folder: &Path) -> Result<Vec<FileStamp>> {
    let files = WeightFiles::read(&Folder::new(folder))?;
    files.paths().map(|path| FileStamp::of(&path).map_err(ModelError::file(&path))).collect()
}

/// What two configurations must have in common for the same files to be read as the same tensors.
fn shapes(config: &Config) -> Vec<ParameterSpec> {
    parameter_specs(config).0
}

#[cfg(test)]
mod tests {
    use candle_core::{CpuStorage, Storage};

    use super::*;
    use crate::config::tests::tiny;
    use crate::folder::{SaveOptions, save_parameters};
    use crate::parameters::ParameterId;

    fn folder(seed: u64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let parameters = Parameters::random(&tiny(), seed, 0.1, &Device::Cpu).unwrap();
        save_parameters(folder.path(), &parameters, SaveOptions::default()).unwrap();
        folder
    }

    #[test]
    fn weights_in_bf16_are_those_of_the_files_and_no_others_are_rounded_to_them() {
        let wide = folder(1);
        let error = BaseWeights::shared_in_bf16(wide.path(), tiny()).err().unwrap().to_string();
        assert!(error.contains("has type F32, allowed: BF16"), "{error}");
        let narrow = tempfile::tempdir().unwrap();
        let parameters = Parameters::random(&tiny(), 1, 0.1, &Device::Cpu).unwrap();
        let options = SaveOptions { dtype: DType::BF16, ..SaveOptions::default() };
        save_parameters(narrow.path(), &parameters, options).unwrap();
        let [half, whole] = [true, false].map(|is_half| {
            if is_half {
                BaseWeights::load_in_bf16(narrow.path(), tiny()).unwrap()
            } else {
                BaseWeights::load(narrow.path(), tiny()).unwrap()
            }
        });
        let mut bytes = [0, 0];
        for (half, whole) in half.weights.iter().zip(&whole.weights) {
            let values =
                |tensor: &Tensor| tensor.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert_eq!(values(half), values(whole));
            for (bytes, tensor) in bytes.iter_mut().zip([half, whole]) {
                *bytes += tensor.elem_count() * tensor.dtype().size_in_bytes();
            }
        }
        assert!(100 * bytes[0] < 60 * bytes[1], "{bytes:?}: norms alone stay as they were");
        // The second caller shares them, whichever type it would have read.
        let first = BaseWeights::shared_in_bf16(narrow.path(), tiny()).unwrap();
        assert!(Arc::ptr_eq(&first, &BaseWeights::shared(narrow.path(), tiny()).unwrap()));
        assert_eq!(first.parameters().unwrap().values()[0].dtype(), DType::BF16);
    }

    #[test]
    fn who_opens_the_same_files_shares_their_weights_and_nobody_shares_others() {
        let one = folder(1);
        let other = folder(2);
        let shared = |folder: &tempfile::TempDir| BaseWeights::shared(folder.path(), tiny()).unwrap();
        let first = shared(&one);
        let again = shared(&one);
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

    #[test]
    fn lent_weights_take_the_place_of_their_files_until_those_change_or_nobody_lends_them() {
        let files = folder(3);
        let parameters = Parameters::random(&tiny(), 3, 0.1, &Device::Cpu).unwrap();
        let lent = BaseWeights::lent(files.path(), &tiny(), &parameters).unwrap();
        assert_eq!(lent.is_some(), reads_weights_by_rows());
        let Some(lent) = lent else { return };
        let shared = || BaseWeights::shared(files.path(), tiny()).unwrap();
        assert!(Arc::ptr_eq(&lent, &shared()));
        // Not a copy of the values.
        let address = |tensor: &Tensor| match &*tensor.storage_and_layout().0 {
            Storage::Cpu(CpuStorage::F32(values)) => values.as_ptr(),
            _ => unreachable!(),
        };
        assert_eq!(address(&shared().weights[0]), address(parameters.get(ParameterId::at(0))));
        std::fs::copy(folder(4).path().join("model.safetensors"), files.path().join("model.safetensors")).unwrap();
        assert!(!Arc::ptr_eq(&lent, &shared()));
        let again = BaseWeights::lent(files.path(), &tiny(), &parameters).unwrap().unwrap();
        let weak = Arc::downgrade(&again);
        drop((lent, again));
        assert!(weak.upgrade().is_none());
    }
}
