//! LoRA adapters in PEFT's layout: `adapter_config.json` and `adapter_model.safetensors`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use evenkeel_host::FileDigest;
use evenkeel_model_folder::{AdapterConfig, Folder, name, tensors_metadata};

use super::load::StoredTensors;
use super::save::{SaveOptions, SavedFile};
use super::tensors::{NamedValues, Values, write_finite_tensors};
use crate::config::Config;
use crate::error::{ModelError, Result};
use crate::parameters::lora::{LORA_A, LORA_B, LinearModule, LoraShape, PREFIX};
use crate::parameters::{ParameterSpec, Parameters};

/// How the name of a base's matrix ends that PEFT writes out beside an adapter of the head.
const BASE_LAYER: &str = ".base_layer.weight";

/// The key of the base's digest in the metadata of the tensors' file.
const BASE: &str = "base";

/// The model that adapters belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdapterBase {
    /// Folder or name of the model, for PEFT.
    pub name: String,
    /// Revision of the model on the hub; empty where there is none.
    pub revision: String,
    /// The digest of its tensors: see [`evenkeel_model_folder::tensors_digest`]. `None` where it was not written down.
    pub digest: Option<String>,
}

impl AdapterBase {
    /// A model in a folder. Reads its weights.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn of_folder(folder: &Path) -> Result<Self> {
        let files = evenkeel_model_folder::WeightFiles::read(&Folder::new(folder))?;
        let digest = evenkeel_model_folder::tensors_digest(&files.tensor_digests(|| true)?);
        Ok(Self { name: folder.display().to_string(), revision: String::new(), digest: Some(digest) })
    }

    /// The model that an adapter in a folder says it belongs to.
    ///
    /// # Errors
    /// A folder without an adapter.
    pub fn of_adapter(folder: &Path) -> Result<Self> {
        let AdapterConfig { base, revision, .. } = AdapterConfig::read(&Folder::new(folder))?;
        let digest = tensors_metadata(&folder.join(name::ADAPTER_WEIGHTS))?.remove(BASE);
        Ok(Self { name: base, revision, digest })
    }

    /// What a reader should know of an adapter that does not hold the digest of its base.
    pub fn note(&self) -> Option<String> {
        let named = if self.name.is_empty() { "no base" } else { &self.name };
        self.digest.is_none().then(|| {
            format!(
                "the adapter names {named} and does not hold its digest: nothing shows that it belongs to this model"
            )
        })
    }

    /// Refuses another base, where both are known.
    ///
    /// # Errors
    /// The adapter's folder, with both digests.
    pub fn validate(&self, adapter: &StoredAdapter) -> Result<()> {
        match (&self.digest, &adapter.base.digest) {
            (Some(wanted), Some(found)) if wanted != found => {
                let called = |name: &str| if name.is_empty() { String::new() } else { format!(" ({name})") };
                let theirs = called(&adapter.base.name);
                let ours = called(&self.name);
                let reason = format!("is an adapter for another base: {found}{theirs}, allowed: {wanted}{ours}");
                Err(ModelError::Corrupt { path: adapter.path.clone(), reason })
            }
            _ => Ok(()),
        }
    }
}

/// Writes the adapters of parameters into the existing `folder`.
///
/// # Errors
/// A file that cannot be written; a value that is not finite.
pub(super) fn save_adapter(
    folder: &Path,
    parameters: &Parameters,
    lora: &LoraShape,
    base: &AdapterBase,
    options: SaveOptions,
) -> Result<Vec<SavedFile>> {
    let tensors = parameters.trained_specs().iter().zip(parameters.trained_values());
    let tensors = tensors.map(|(spec, value)| NamedValues {
        name: spec.name.clone(),
        shape: &spec.shape,
        values: Values::Tensor(value),
    });
    let mut metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    metadata.extend(base.digest.iter().map(|digest| (BASE.to_owned(), digest.clone())));
    let SaveOptions { dtype, synced, .. } = options;
    let path = folder.join(name::ADAPTER_WEIGHTS);
    let weights = write_finite_tensors(&path, tensors.collect(), dtype, Some(metadata), synced)?;
    let config = AdapterConfig {
        rank: lora.rank,
        alpha: lora.alpha,
        targets: lora.targets.iter().map(|module| module.name().to_owned()).collect(),
        base: base.name.clone(),
        revision: base.revision.clone(),
        is_stabilised: false,
    };
    let path = folder.join(name::ADAPTER_CONFIG);
    let text = config.to_text();
    let written = if synced { evenkeel_host::write(&path, &text) } else { std::fs::write(&path, &text) };
    written.map_err(ModelError::file(path))?;
    let file = |name: &str, digest| SavedFile { name: name.to_owned(), digest };
    Ok(vec![file(name::ADAPTER_CONFIG, FileDigest::of_bytes(text.as_bytes())), file(name::ADAPTER_WEIGHTS, weights)])
}

/// An adapter in a folder, all of whose tensors are known to be there and no other ones.
pub struct StoredAdapter {
    path: PathBuf,
    shape: LoraShape,
    /// Whether the alpha of the shape is that of a file with `use_rslora`.
    is_stabilised: bool,
    base: AdapterBase,
    specs: Vec<ParameterSpec>,
    tensors: StoredTensors,
    /// The name of the base's head, if the file has it.
    head: Option<String>,
}

impl StoredAdapter {
    /// Opens the adapter of a model of this shape.
    ///
    /// # Errors
    /// A missing or truncated file; another kind of adapter than plain LoRA; a tensor that is missing, superfluous, of
    /// another shape or type, or with a value that is not finite: by its name.
    pub fn open(folder: &Path, config: &Config) -> Result<Self> {
        let described = AdapterConfig::read(&Folder::new(folder))?;
        let path = folder.join(name::ADAPTER_WEIGHTS);
        let tensors = StoredTensors::open(&path)?;
        let mut names: BTreeSet<String> = tensors.names().into_iter().collect();
        let base = Parameters::described(config)?;
        let head = base.spec(base.ids().head.weight);
        let written = ParameterSpec {
            name: format!("{PREFIX}{}{BASE_LAYER}", head.name.trim_end_matches(".weight")),
            ..head.clone()
        };
        let head = names.remove(&written.name).then_some(&written);
        let shape = LoraShape { rank: described.rank, alpha: described.alpha, targets: targets(&path, &names)? };
        let specs = base.adapter_specs(&shape)?;
        for spec in specs.iter().chain(head) {
            tensors.validate(&path, spec)?;
        }
        let head = head.map(|spec| spec.name.clone());
        let known: BTreeSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        if let Some(other) = names.iter().find(|name| !known.contains(name.as_str())) {
            let reason = "is no adapter of a linear layer of this model".to_owned();
            return Err(ModelError::Tensor { path, tensor: other.clone(), reason });
        }
        let digest = tensors_metadata(&path)?.remove(BASE);
        let AdapterConfig { base, revision, is_stabilised, .. } = described;
        let base = AdapterBase { name: base, revision, digest };
        Ok(Self { path, shape, is_stabilised, base, specs, tensors, head })
    }

    /// Refuses an adapter that brings the head of another model, which PEFT writes out where the head has an adapter.
    ///
    /// # Errors
    /// A head that is not the base's; a failure of the file.
    pub fn validate_head(&self, base: &Parameters) -> Result<()> {
        let Some(name) = &self.head else { return Ok(()) };
        let own = base.get(base.ids().head.weight).to_dtype(DType::F32)?;
        let written = self.tensors.read(name, own.device())?;
        if (written - own)?.abs()?.flatten_all()?.max(0)?.to_scalar::<f32>()? == 0.0 {
            return Ok(());
        }
        let reason = "is not the head of the base, which no adapter changes".to_owned();
        Err(ModelError::Tensor { path: self.path.clone(), tensor: name.clone(), reason })
    }

    /// Rank, scale and targets.
    pub fn shape(&self) -> &LoraShape {
        &self.shape
    }

    /// The model that it says it belongs to.
    pub fn base(&self) -> &AdapterBase {
        &self.base
    }

    /// A tensor in fp32, by its number in the order of [`Parameters::adapter_specs`].
    ///
    /// # Errors
    /// A failure of the file or of the device.
    pub fn read(&self, number: usize, device: &Device) -> Result<Tensor> {
        self.tensors.read(&self.specs[number].name, device)
    }

    /// Reads every tensor of the adapter, in order.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_all(&self, device: &Device) -> Result<Vec<Tensor>> {
        (0..self.specs.len()).map(|number| self.read(number, device)).collect()
    }

    /// Refuses another shape.
    ///
    /// # Errors
    /// Both shapes.
    pub fn validate_shape(&self, wanted: &LoraShape) -> Result<()> {
        let found = &self.shape;
        if found == wanted {
            return Ok(());
        }
        let text = |shape: &LoraShape| {
            let targets: Vec<_> = shape.targets.iter().map(|module| module.name()).collect();
            format!("rank {}, alpha {}, targets {}", shape.rank, shape.alpha, targets.join(" "))
        };
        let scaled = if self.is_stabilised {
            format!(" (use_rslora scales its B A by lora_alpha / sqrt(rank), which is alpha {} here)", found.alpha)
        } else {
            String::new()
        };
        let reason = format!("is an adapter of {}{scaled}, allowed: {}", text(found), text(wanted));
        Err(ModelError::Corrupt { path: self.path.clone(), reason })
    }
}

/// The linear layers that tensors of these names belong to: what counts is which tensors there are.
fn targets(path: &Path, names: &BTreeSet<String>) -> Result<Vec<LinearModule>> {
    let mut targets = BTreeSet::new();
    for name in names {
        let module = name.strip_suffix(LORA_A).or_else(|| name.strip_suffix(LORA_B));
        let module = module.and_then(|path| path.rsplit('.').next()).and_then(|last| last.parse().ok());
        let Some(module) = module else {
            let allowed = LinearModule::ALL.map(LinearModule::name).join(", ");
            let reason = format!("is no A or B of a linear layer, allowed: {LORA_A} and {LORA_B} of {allowed}");
            return Err(ModelError::Tensor { path: path.to_owned(), tensor: name.clone(), reason });
        };
        targets.insert(module);
    }
    if targets.is_empty() {
        Err(ModelError::Corrupt { path: path.to_owned(), reason: "holds no adapter".to_owned() })
    } else {
        Ok(targets.into_iter().collect())
    }
}
