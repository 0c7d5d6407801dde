//! Models of llama.cpp: a GGUF file becomes a Hugging Face folder, as transformers reads the same file.
//!
//! Quantised weights are written as the f32 values that they stand for. The tokenizer and its chat template come from
//! the file's metadata.

mod config;
mod file;
mod merges;
mod names;
mod tokenizer;

use std::path::Path;

use candle_core::{DType, Device};
use evenkeel_model_folder::{Folder, Tokenizer, name};
use serde_json::{Value, json};

use crate::config::Config;
use crate::error::{ModelError, Result};
use crate::folder::{SaveOptions, save_config, save_parameters};
use crate::parameters::{Parameters, parameter_specs};
use file::GgufFile;

/// What an import wrote.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The model's sizes and capabilities.
    pub config: Config,
    /// Number of scalars in all parameters.
    pub parameters: usize,
    /// Whether the file has a chat template.
    pub has_chat_template: bool,
}

/// Writes the model of a GGUF file into a folder of its own, which appears when it is whole. The values are in memory
/// while they are written, four bytes each.
///
/// # Errors
/// A file that is not a complete GGUF file, has another architecture, types, tensors or a tokenizer that are not known
/// here; a folder that has something in it.
pub fn import_gguf(path: &Path, folder: &Path) -> Result<Imported> {
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) || folder.is_file() {
        let reason = "holds something else, allowed: an empty folder or none".to_owned();
        return Err(ModelError::Corrupt { path: folder.to_owned(), reason });
    }
    let mut file = GgufFile::open(path)?;
    let json = config::of(&file)?;
    let config = Config::from_json(&json)?;
    let aside = folder.with_extension(format!("writing-{}", std::process::id()));
    let written = write(&aside, &mut file, &config, &json).and_then(|imported| {
        if folder.exists() {
            std::fs::remove_dir(folder).map_err(ModelError::file(folder))?;
        }
        std::fs::rename(&aside, folder).map_err(ModelError::file(folder))?;
        Ok(imported)
    });
    if written.is_err() {
        // The first error is reported, whether or not what was written can be removed.
        let _ = std::fs::remove_dir_all(&aside);
    }
    written
}

fn write(folder: &Path, file: &mut GgufFile, config: &Config, json: &Value) -> Result<Imported> {
    let tokenizer = tokenizer::of(file)?;
    let parameters = parameters(file, config)?;
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).map_err(ModelError::file(folder))?;
    let put = |name: &str, text: String| {
        let path = folder.join(name);
        evenkeel_host::write(&path, text).map_err(ModelError::file(&path))
    };
    let mut generation = json!({});
    for key in ["bos_token_id", "eos_token_id", "pad_token_id"] {
        generation[key] = json[key].clone();
    }
    put(name::TOKENIZER, format!("{}\n", tokenizer.file))?;
    put(name::TOKENIZER_CONFIG, format!("{:#}\n", tokenizer.config))?;
    put(name::GENERATION_CONFIG, format!("{generation:#}\n"))?;
    if let Some(template) = &tokenizer.chat_template {
        put(name::CHAT_TEMPLATE, template.clone())?;
    }
    save_config(folder, json, DType::F32)?;
    // What reads the folder would refuse it.
    let read = Tokenizer::require(&Folder::new(folder))?;
    read.validate_vocabulary(u32::try_from(config.vocab_size).unwrap_or(u32::MAX))?;
    save_parameters(folder, &parameters, SaveOptions::default())?;
    evenkeel_host::sync_folder(folder).map_err(ModelError::file(folder))?;
    let has_chat_template = tokenizer.chat_template.is_some();
    Ok(Imported { config: config.clone(), parameters: parameters.count(), has_chat_template })
}

/// Exactly the tensors of the architecture, with the right shapes.
fn parameters(file: &mut GgufFile, config: &Config) -> Result<Parameters> {
    let (specs, ids) = parameter_specs(config);
    let stored = names::of(&ids, specs.len());
    file.refuse_others(&stored)?;
    let permuted = names::permuted(&ids, config, file.architecture());
    let values = specs.iter().zip(&stored).enumerate().map(|(id, (spec, stored))| {
        let value = file.tensor(stored, &spec.shape)?;
        match permuted.get(&id) {
            Some(&heads) => names::as_halves(&value, heads),
            None => Ok(value),
        }
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    Parameters::new(config, values, &Device::Cpu)
}

#[cfg(test)]
mod metadata_tests;
#[cfg(test)]
mod tests;
