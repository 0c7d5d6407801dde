//! Reading weights: exactly the tensors of the architecture, with the right shapes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor, safetensors::MmapedSafetensors};
use evenkeel_model_folder::{EMBEDDING, Folder, HEAD, WeightFiles};

use super::finite::NonFinite;
use super::mapped::{self, map};
use crate::config::Config;
use crate::error::{ModelError, Result};
use crate::parallel::in_parallel;
use crate::parameters::{ParameterId, ParameterKind, ParameterSpec, Parameters, parameter_specs};

/// Reads the weights in `folder` as fp32 tensors on `device`.
///
/// # Errors
/// A file that is missing, truncated or not safetensors; a tensor that is missing, superfluous, of the wrong shape, of
/// a type other than F32, F16 or BF16, or with a value that is not finite; the head of a tied model that is not the
/// embedding. The error names it.
pub fn load_parameters(folder: &Path, config: &Config, device: &Device) -> Result<Parameters> {
    let stored = StoredParameters::open(folder, config)?;
    let all: Vec<_> = (0..stored.specs.len()).map(ParameterId::at).collect();
    Parameters::new(config, stored.read_all(&all, device)?, device)
}

/// Reads the weights in `folder` on `device`, with matrices in bf16 as the files store them: a frozen base, which takes
/// half the memory and computes to equal bits.
///
/// # Errors
/// As [`load_parameters`]; a matrix that is stored in another type.
pub fn load_parameters_in_bf16(folder: &Path, config: &Config, device: &Device) -> Result<Parameters> {
    let stored = StoredParameters::open(folder, config)?;
    stored.refuse_wider_than_bf16()?;
    let all = (0..stored.specs.len()).map(|id| stored.read_narrow(ParameterId::at(id), device));
    Parameters::laid_out(config, all.collect::<Result<_>>()?)
}

/// The weights in a folder, all of which are known to be there: read one by one, they need no memory but where they go.
pub struct StoredParameters {
    specs: Vec<ParameterSpec>,
    shards: Shards,
}

impl StoredParameters {
    /// Opens the files and looks at their headers.
    ///
    /// # Errors
    /// As [`load_parameters`].
    pub fn open(folder: &Path, config: &Config) -> Result<Self> {
        let (specs, _) = parameter_specs(config);
        let shards = Shards::open(folder)?;
        shards.refuse_superfluous(&specs, config.tie_word_embeddings)?;
        if config.tie_word_embeddings {
            shards.refuse_another_head()?;
        }
        specs.iter().try_for_each(|spec| shards.find(spec).map(drop))?;
        Ok(Self { specs, shards })
    }

    /// A parameter in fp32.
    ///
    /// # Errors
    /// A value that is not finite; a failure of the file or of the device.
    pub fn read(&self, id: ParameterId, device: &Device) -> Result<Tensor> {
        let spec = &self.specs[id.index()];
        let file = self.shards.find(spec)?;
        self.shards.refuse_non_finite(file, spec)?;
        Ok(mapped::read(&self.shards.files[file].1, &spec.name, device)?.to_dtype(DType::F32)?)
    }

    /// Refuses files whose matrices are not stored in bf16: they would be rounded.
    ///
    /// # Errors
    /// The first of them, with its type.
    pub fn refuse_wider_than_bf16(&self) -> Result<()> {
        for spec in self.specs.iter().filter(|spec| spec.kind == ParameterKind::Matrix) {
            let (path, file) = &self.shards.files[self.shards.find(spec)?];
            let view = file.get(&spec.name)?;
            if view.dtype() != safetensors::Dtype::BF16 {
                let reason = format!("has type {:?}, allowed: BF16 where it is held in bf16", view.dtype());
                return Err(ModelError::Tensor { path: path.clone(), tensor: spec.name.clone(), reason });
            }
        }
        Ok(())
    }

    /// A parameter as it is stored if that is bf16, otherwise in fp32.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_narrow(&self, id: ParameterId, device: &Device) -> Result<Tensor> {
        let spec = &self.specs[id.index()];
        let file = self.shards.find(spec)?;
        self.shards.refuse_non_finite(file, spec)?;
        let value = mapped::read(&self.shards.files[file].1, &spec.name, device)?;
        match (spec.kind, value.dtype()) {
            (ParameterKind::Matrix, DType::BF16) => Ok(value),
            _ => Ok(value.to_dtype(DType::F32)?),
        }
    }

    /// Reads parameters in fp32, in the order of `ids`; for a CPU several at a time.
    ///
    /// # Errors
    /// As [`read`](Self::read), of the first that fails.
    pub fn read_all(&self, ids: &[ParameterId], device: &Device) -> Result<Vec<Tensor>> {
        if device.is_cpu() {
            in_parallel(ids.len(), |at| self.read(ids[at], device))
        } else {
            ids.iter().map(|&id| self.read(id, device)).collect()
        }
    }
}

/// Reads all weights of a folder and keeps none.
///
/// # Errors
/// As [`load_parameters`].
pub fn check_values(folder: &Path, config: &Config) -> Result<()> {
    let stored = StoredParameters::open(folder, config)?;
    let check = |at: usize| stored.shards.refuse_non_finite(stored.shards.find(&stored.specs[at])?, &stored.specs[at]);
    in_parallel(stored.specs.len(), check).map(drop)
}

/// A safetensors file, of which tensors are read one by one.
pub struct StoredTensors {
    file: MmapedSafetensors,
}

impl StoredTensors {
    /// Opens it and looks at its header.
    ///
    /// # Errors
    /// A file that is missing, truncated or not safetensors.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { file: map(path)? })
    }

    /// Type and shape of a tensor; `None` if there is none of this name, or of a type that candle does not have.
    pub fn find(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        let view = self.file.get(name).ok()?;
        Some((DType::try_from(view.dtype()).ok()?, view.shape().to_vec()))
    }

    /// The names of all tensors.
    pub fn names(&self) -> Vec<String> {
        self.file.tensors().into_iter().map(|(name, _)| name).collect()
    }

    /// Refuses a tensor that is not as described: missing, of another shape or type, or with a value that is not
    /// finite.
    pub(super) fn validate(&self, path: &Path, spec: &ParameterSpec) -> Result<()> {
        let wrong = |reason: String| ModelError::Tensor { path: path.to_owned(), tensor: spec.name.clone(), reason };
        let view = self.file.get(&spec.name).map_err(|_| wrong("is missing".into()))?;
        if view.shape() != spec.shape {
            return Err(wrong(format!("has shape {:?}, allowed: {:?}", view.shape(), spec.shape)));
        }
        let dtype = match DType::try_from(view.dtype()) {
            Ok(dtype @ (DType::F32 | DType::F16 | DType::BF16)) => dtype,
            _ => return Err(wrong(format!("has type {:?}, allowed: F32, F16 and BF16", view.dtype()))),
        };
        match NonFinite::in_bytes(view.data(), dtype) {
            Some(found) => Err(found.error(path, &spec.name, &spec.shape)),
            None => Ok(()),
        }
    }

    /// A tensor in fp32.
    ///
    /// # Errors
    /// A tensor that is not there, or a failure of the device.
    pub fn read(&self, name: &str, device: &Device) -> Result<Tensor> {
        Ok(mapped::read(&self.file, name, device)?.to_dtype(DType::F32)?)
    }
}

/// The open files of a folder, and the file of each tensor.
struct Shards {
    files: Vec<(PathBuf, MmapedSafetensors)>,
    file_of: BTreeMap<String, usize>,
}

impl Shards {
    fn open(folder: &Path) -> Result<Self> {
        let weights = WeightFiles::read(&Folder::new(folder))?;
        if weights.is_empty() {
            return Err(ModelError::Input(weights.absence()));
        }
        let files = weights.paths().map(|path| Ok((path.clone(), map(&path)?))).collect::<Result<Vec<_>>>()?;
        let file_of = match weights.file_of() {
            Some(file_of) => file_of.clone(),
            None => {
                let tensors = |(at, (_, file)): (usize, &(PathBuf, MmapedSafetensors))| {
                    file.tensors().into_iter().map(move |(name, _)| (name, at)).collect::<Vec<_>>()
                };
                files.iter().enumerate().flat_map(tensors).collect()
            }
        };
        Ok(Self { files, file_of })
    }

    fn refuse_superfluous(&self, specs: &[ParameterSpec], tied: bool) -> Result<()> {
        for (name, &at) in &self.file_of {
            // Some folders have a tied head twice.
            let harmless = tied && name == HEAD;
            if !harmless && !specs.iter().any(|spec| &spec.name == name) {
                let reason = if name.ends_with("rotary_emb.inv_freq") {
                    "is a buffer of old exporters, which engines refuse or read as a parameter: write the weights \
                        without it"
                } else {
                    "is not a parameter of this architecture: config.json and weights disagree"
                };
                let reason = reason.into();
                return Err(ModelError::Tensor { path: self.files[at].0.clone(), tensor: name.clone(), reason });
            }
        }
        Ok(())
    }

    /// Refuses the head of a tied model that is not the embedding: other programs would compute with it.
    fn refuse_another_head(&self) -> Result<()> {
        let stored = |name: &str| {
            let (path, file) = &self.files[*self.file_of.get(name)?];
            Some((path, file.get(name).ok()?))
        };
        let (Some((path, head)), Some((_, embedding))) = (stored(HEAD), stored(EMBEDDING)) else { return Ok(()) };
        let values = |view: &safetensors::tensor::TensorView<'_>| (view.dtype(), view.shape().to_vec());
        if values(&head) == values(&embedding) && head.data() == embedding.data() {
            return Ok(());
        }
        let reason = format!("is not {EMBEDDING}, to which config.json ties it: which of them is the model?");
        Err(ModelError::Tensor { path: path.clone(), tensor: HEAD.into(), reason })
    }

    /// Refuses a parameter with a value that is not finite.
    fn refuse_non_finite(&self, file: usize, spec: &ParameterSpec) -> Result<()> {
        let (path, tensors) = &self.files[file];
        let view = tensors.get(&spec.name)?;
        let dtype = DType::try_from(view.dtype()).map_err(candle_core::Error::wrap)?;
        match NonFinite::in_bytes(view.data(), dtype) {
            Some(found) => Err(found.error(path, &spec.name, &spec.shape)),
            None => Ok(()),
        }
    }

    /// The file that has a parameter, with the shape that it should have.
    fn find(&self, spec: &ParameterSpec) -> Result<usize> {
        let at = self.file_of.get(&spec.name).copied();
        let path = self.files[at.unwrap_or(0)].0.clone();
        let wrong = |reason: String| ModelError::Tensor { path: path.clone(), tensor: spec.name.clone(), reason };
        let at = at.ok_or_else(|| wrong("is missing".into()))?;
        let view = self.files[at].1.get(&spec.name).map_err(|e| wrong(format!("cannot be read: {e}")))?;
        if view.shape() != spec.shape {
            return Err(wrong(format!("has shape {:?}, config.json requires {:?}", view.shape(), spec.shape)));
        }
        let dtype = DType::try_from(view.dtype()).ok();
        if !matches!(dtype, Some(DType::F32 | DType::F16 | DType::BF16)) {
            return Err(wrong(format!("has type {:?}, allowed: F32, F16 and BF16", view.dtype())));
        }
        Ok(at)
    }
}
