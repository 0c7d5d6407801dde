//! Writing weights in the layout of transformers and engines.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::DType;
use evenkeel_host::FileDigest;
use evenkeel_model_folder::{HEAD, name};
use serde_json::{Value, json};

use super::tensors::{NamedValues, Values, write_finite_tensors};
use crate::error::{ModelError, Result};
use crate::parallel::{on_threads, threads};
use crate::parameters::{ParameterId, Parameters};

/// How weights are written.
#[derive(Clone, Copy, Debug)]
pub struct SaveOptions {
    /// The type in the file: F32, BF16 or F16.
    pub dtype: DType,
    /// Maximum size of a file in bytes, unless a single tensor is larger.
    pub max_shard_bytes: usize,
    /// Whether the head of a tied model is written out, as `lm_head.weight`.
    pub write_out_head: bool,
    /// Whether every file is synced; otherwise that is left to the caller.
    pub synced: bool,
}

impl Default for SaveOptions {
    fn default() -> Self {
        Self { dtype: DType::F32, max_shard_bytes: 5_000_000_000, write_out_head: false, synced: true }
    }
}

/// A file of weights that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFile {
    /// The name in the folder.
    pub name: String,
    /// Length and digest, made while the file was written.
    pub digest: FileDigest,
}

/// Writes all parameters into the existing `folder`: one file, or shards with an index. Shards are written at the same
/// time, as many as there are processors, up to eight: most of the work are their digests. Each takes a few MiB, and
/// has the same bytes however many are written at a time.
///
/// # Errors
/// A file that cannot be written; a value that is not finite, also one that only the type in the file makes so.
pub fn save_parameters(folder: &Path, parameters: &Parameters, options: SaveOptions) -> Result<Vec<SavedFile>> {
    save_on(threads(), folder, parameters, options)
}

/// Writes parameters as [`save_parameters`] does, with `threads` shards at a time.
pub(super) fn save_on(
    threads: usize,
    folder: &Path,
    parameters: &Parameters,
    options: SaveOptions,
) -> Result<Vec<SavedFile>> {
    let shards = assign(parameters, options);
    if let [only] = shards.as_slice() {
        let digest = write_shard(&folder.join(name::WEIGHTS), parameters, only, options)?;
        return Ok(vec![SavedFile { name: name::WEIGHTS.to_owned(), digest }]);
    }
    let name = |number: usize| format!("model-{:05}-of-{:05}.safetensors", number + 1, shards.len());
    let files = on_threads(threads, shards.len(), |number| {
        let digest = write_shard(&folder.join(name(number)), parameters, &shards[number], options)?;
        Ok(SavedFile { name: name(number), digest })
    })?;
    let mut weight_map = BTreeMap::new();
    for (file, tensors) in files.iter().zip(&shards) {
        weight_map.extend(tensors.iter().map(|tensor| (tensor.name.to_owned(), file.name.clone())));
    }
    let count = |tensor: &StoredAs<'_>| parameters.get(tensor.id).elem_count();
    let total = shards.iter().flatten().map(count).sum::<usize>() * options.dtype.size_in_bytes();
    let index = json!({"metadata": {"total_size": total}, "weight_map": weight_map});
    let path = folder.join(name::WEIGHTS_INDEX);
    let text = json_text(&index);
    let written = if options.synced { evenkeel_host::write(&path, text) } else { std::fs::write(&path, text) };
    written.map_err(ModelError::file(path))?;
    Ok(files)
}

/// Writes `config.json` with the type of the weights in the folder, and syncs it.
pub fn save_config(folder: &Path, config: &Value, dtype: DType) -> Result<()> {
    let path = folder.join(name::CONFIG);
    evenkeel_host::write(&path, config_text(config, dtype)).map_err(ModelError::file(path))
}

/// The text of `config.json` with the type of the weights.
pub fn config_text(config: &Value, dtype: DType) -> String {
    let name = match dtype {
        DType::BF16 => "bfloat16",
        DType::F16 => "float16",
        _ => "float32",
    };
    let mut config = config.clone();
    // transformers 5 writes `dtype`, 4 `torch_dtype`: whichever is present is updated.
    if config.get("torch_dtype").is_some() {
        config["torch_dtype"] = json!(name);
    }
    if config.get("dtype").is_some() || config.get("torch_dtype").is_none() {
        config["dtype"] = json!(name);
    }
    json_text(&config)
}

/// A parameter under a name.
struct StoredAs<'a> {
    name: &'a str,
    id: ParameterId,
}

/// What each shard holds, in order.
fn assign(parameters: &Parameters, options: SaveOptions) -> Vec<Vec<StoredAs<'_>>> {
    let mut shards = vec![Vec::new()];
    let mut bytes = 0;
    let ids = (0..parameters.values().len()).map(ParameterId::at);
    let stored = ids.map(|id| StoredAs { name: &parameters.spec(id).name, id });
    let ids_of_parts = parameters.ids();
    let head = (options.write_out_head && ids_of_parts.is_tied())
        .then_some(StoredAs { name: HEAD, id: ids_of_parts.head.weight });
    for tensor in stored.chain(head) {
        let size = parameters.get(tensor.id).elem_count() * options.dtype.size_in_bytes();
        if bytes > 0 && bytes + size > options.max_shard_bytes {
            shards.push(Vec::new());
            bytes = 0;
        }
        shards.last_mut().expect("the list begins with one shard").push(tensor);
        bytes += size;
    }
    shards
}

fn write_shard(
    path: &Path,
    parameters: &Parameters,
    stored: &[StoredAs<'_>],
    options: SaveOptions,
) -> Result<FileDigest> {
    let tensors = stored.iter().map(|&StoredAs { name, id }| {
        let shape = &parameters.spec(id).shape;
        let values = Values::Tensor(parameters.get(id));
        NamedValues { name: name.to_owned(), shape, values }
    });
    // Python readers refuse a file without the format of its framework.
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    write_finite_tensors(path, tensors.collect(), options.dtype, Some(metadata), options.synced)
}

fn json_text(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("a JSON value without maps of other keys serialises")
}
