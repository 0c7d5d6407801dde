//! Writing weights in the layout of transformers and engines.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use serde_json::{Value, json};

use super::{INDEX, SINGLE};
use crate::error::{ModelError, Result};
use crate::parameters::Parameters;

/// How weights are written.
#[derive(Clone, Copy, Debug)]
pub struct SaveOptions {
    /// The type in the file: F32, BF16 or F16.
    pub dtype: DType,
    /// Maximum size of a file in bytes, unless a single tensor is larger.
    pub max_shard_bytes: usize,
}

impl Default for SaveOptions {
    fn default() -> Self {
        Self { dtype: DType::F32, max_shard_bytes: 5_000_000_000 }
    }
}

/// Writes all parameters into the existing `folder`: one file, or shards with an index. Every file is synced.
pub fn save_parameters(folder: &Path, parameters: &Parameters, options: SaveOptions) -> Result<()> {
    let shards = assign(parameters, options);
    if let [only] = shards.as_slice() {
        return write_shard(&folder.join(SINGLE), parameters, only, options.dtype);
    }
    let mut weight_map = BTreeMap::new();
    for (number, ids) in shards.iter().enumerate() {
        let name = format!("model-{:05}-of-{:05}.safetensors", number + 1, shards.len());
        write_shard(&folder.join(&name), parameters, ids, options.dtype)?;
        weight_map.extend(ids.iter().map(|&id| (parameters.specs()[id].name.clone(), name.clone())));
    }
    let total = parameters.count() * options.dtype.size_in_bytes();
    let index = json!({"metadata": {"total_size": total}, "weight_map": weight_map});
    write_json(&folder.join(INDEX), &index)
}

/// Writes `config.json` with the type of the weights in the folder.
pub fn save_config(folder: &Path, config: &Value, dtype: DType) -> Result<()> {
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
    write_json(&folder.join("config.json"), &config)
}

/// Parameter ids of each shard, in order.
fn assign(parameters: &Parameters, options: SaveOptions) -> Vec<Vec<usize>> {
    let mut shards = vec![Vec::new()];
    let mut bytes = 0;
    for (id, value) in parameters.values().iter().enumerate() {
        let size = value.elem_count() * options.dtype.size_in_bytes();
        if bytes > 0 && bytes + size > options.max_shard_bytes {
            shards.push(Vec::new());
            bytes = 0;
        }
        shards.last_mut().expect("the list begins with one shard").push(id);
        bytes += size;
    }
    shards
}

fn write_shard(path: &Path, parameters: &Parameters, ids: &[usize], dtype: DType) -> Result<()> {
    let tensors = ids.iter().map(|&id| {
        let value = parameters.get(id).to_dtype(dtype)?.to_device(&Device::Cpu)?;
        Ok((parameters.specs()[id].name.clone(), value))
    });
    let tensors = tensors.collect::<Result<Vec<(String, Tensor)>>>()?;
    // Python readers refuse a file without the format of its framework.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let failed =
        |e: &dyn std::fmt::Display| ModelError::Corrupt { path: path.into(), reason: format!("not written: {e}") };
    safetensors::serialize_to_file(tensors, Some(metadata), path).map_err(|e| failed(&e))?;
    File::open(path).and_then(|file| file.sync_all()).map_err(ModelError::file(path))
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(value).expect("a JSON value without maps of other keys serialises");
    let mut file = File::create(path).map_err(ModelError::file(path))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(ModelError::file(path))
}
