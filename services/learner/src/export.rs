//! Weights of a checkpoint, or of a published version, as a Hugging Face folder for everybody else; adapters as a
//! folder of PEFT, or merged into a copy of their base.

use std::path::Path;

use candle_core::Device;
use evenkeel_model::folder::{AdapterBase, SaveOptions, StoredAdapter, load_parameters, save_trained};
use evenkeel_model::{Config, Parameters};
use evenkeel_model_folder::AdapterConfig;
use serde_json::Value;

use crate::checkpoint::{is_checkpoint, verify_weights};
use crate::error::{LearnerError, Result};
use crate::files::{write_file, write_folder};
use crate::publish::{PublishOptions, verify_published};
use crate::source::ModelSource;

/// Choice of weights to export.
#[derive(Clone, Copy, Debug)]
pub struct Export<'a> {
    /// A checkpoint, or a published version.
    pub weights: &'a Path,
    /// The folder of the model that was trained, with its tokenizer.
    pub model: &'a Path,
    /// The repository of that model on the hub and its revision, which an adapter names; both empty where it has none.
    pub base: (&'a str, &'a str),
    /// Type and size of the files.
    pub options: PublishOptions,
    /// Whether adapters are merged into a copy of their base.
    pub merged: bool,
    /// Further files by their names, which replace those of the model.
    pub files: &'a [(String, Vec<u8>)],
}

/// Writes the folder `to`, completely or not at all: weights, `config.json`, the tokenizer's files, and further ones.
///
/// # Errors
/// Weights other than those written; a folder that exists and is not empty; a file that cannot be written.
pub fn export(export: &Export, to: &Path) -> Result<()> {
    if std::fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(LearnerError::OutputNotEmpty(to.to_owned()));
    }
    if is_checkpoint(export.weights) {
        verify_weights(export.weights)?
    } else {
        drop(verify_published(export.weights)?)
    }
    let Exported { parameters, base, json } = read(export)?;
    let source = ModelSource::opened(export.model, json);
    write_folder(to, |staging| {
        let PublishOptions { dtype, max_shard_bytes, .. } = export.options;
        let options = SaveOptions { dtype, max_shard_bytes, synced: false, ..SaveOptions::default() };
        save_trained(staging, &parameters, &base, options)?;
        if parameters.lora().is_none() {
            source.write_config(staging, dtype, false)?;
        }
        source.copy_companions(staging)?;
        export.files.iter().try_for_each(|(name, bytes)| write_file(&staging.join(name), bytes))
    })
}

/// Weights and configuration to write.
struct Exported {
    parameters: Parameters,
    /// The model that adapters belong to.
    base: AdapterBase,
    /// The model's `config.json`.
    json: Value,
}

fn read(export: &Export) -> Result<Exported> {
    if !AdapterConfig::is_in(export.weights) {
        let (config, json) = Config::load(export.weights)?;
        let parameters = load_parameters(export.weights, &config, &Device::Cpu)?;
        return Ok(Exported { parameters, base: AdapterBase::default(), json });
    }
    let (config, json) = Config::load(export.model)?;
    let adapter = StoredAdapter::open(export.weights, &config)?;
    let base = AdapterBase::of_folder(export.model)?;
    base.validate(&adapter)?;
    // Its folder would say nothing to anybody else.
    let (name, revision) = export.base;
    let base = AdapterBase { name: name.to_owned(), revision: revision.to_owned(), ..base };
    let frozen = load_parameters(export.model, &config, &Device::Cpu)?;
    adapter.validate_head(&frozen)?;
    let beside = frozen.with_adapters(adapter.shape(), adapter.read_all(&Device::Cpu)?)?;
    let parameters = if export.merged { beside.merged()? } else { beside };
    Ok(Exported { parameters, base, json })
}
