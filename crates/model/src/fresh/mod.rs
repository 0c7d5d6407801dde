//! A fresh model with random weights, written from its seed as a Hugging Face folder that any engine can open.

mod characters;
mod shape;

use std::path::Path;

use candle_core::{DType, Device};
use evenkeel_model_folder::name;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::folder::{SaveOptions, save_config, save_parameters};
use crate::{Architecture, Biases, Config, ModelError, Parameters, Result, Rope};
use characters::{END, PAD, tokenizer_config};

pub use characters::character_tokenizer;
pub use shape::FreshShape;

/// The file that records what a folder was written from. It is written last, so its presence means that the folder is
/// complete.
const MARKER: &str = "evenkeel-fresh.json";

/// Everything that determines the bits of a fresh model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FreshModel {
    /// Sizes of the network.
    pub shape: FreshShape,
    /// Seed of its weights.
    pub seed: u64,
}

impl FreshModel {
    /// What its `config.json` says.
    pub fn config(&self) -> Config {
        let shape = &self.shape;
        Config {
            architecture: Architecture::QWEN3,
            query_key_norm: true,
            vocab_size: shape.vocabulary_size,
            hidden_size: shape.hidden_size,
            intermediate_size: shape.intermediate_size,
            num_layers: shape.layers,
            num_heads: shape.heads,
            num_kv_heads: shape.kv_heads,
            head_dim: shape.head_dim,
            max_position_embeddings: shape.context_tokens,
            rms_norm_eps: 1e-6,
            rope: Rope::plain(10_000.0),
            layers_without_rope: Vec::new(),
            biases: Biases::NONE,
            tie_word_embeddings: shape.tied,
            eos_token_ids: vec![END],
        }
    }
}

/// Writes the model with its tokenizer into `folder`. Does nothing if the same model is already there.
///
/// # Errors
/// An invalid shape; a folder with other content; a file that cannot be written.
pub fn write_fresh_model(folder: &Path, model: &FreshModel) -> Result<()> {
    let corrupt = |reason: String| ModelError::Corrupt { path: folder.to_owned(), reason };
    let marker = serde_json::to_value(model).map_err(|error| corrupt(error.to_string()))?;
    let existing = read_marker(folder)?;
    if existing.as_ref() == Some(&marker) {
        return Ok(());
    }
    if let Some(other) = existing {
        return Err(corrupt(format!("was written from {other}, allowed: {marker}")));
    }
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(corrupt("holds something else, allowed: an empty folder or none".to_owned()));
    }
    let aside = folder.with_extension(format!("writing-{}", std::process::id()));
    let written = write(&aside, model, &marker).and_then(|()| {
        if folder.exists() {
            std::fs::remove_dir(folder).map_err(ModelError::file(folder))?;
        }
        std::fs::rename(&aside, folder).map_err(ModelError::file(folder))
    });
    if written.is_err() {
        // The first error is reported, whether or not what was written can be removed.
        let _ = std::fs::remove_dir_all(&aside);
        // If another process has just written the same folder, its result is as good as this one.
        if read_marker(folder).is_ok_and(|found| found.as_ref() == Some(&marker)) {
            return Ok(());
        }
    }
    written
}

/// What a folder was written from; `None` if it is not a fresh model.
fn read_marker(folder: &Path) -> Result<Option<Value>> {
    let path = folder.join(MARKER);
    match std::fs::read(&path) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(marker) => Ok(Some(marker)),
            Err(error) => Err(ModelError::Corrupt { path, reason: format!("is not JSON: {error}") }),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ModelError::file(path)(error)),
    }
}

fn write(folder: &Path, model: &FreshModel, marker: &Value) -> Result<()> {
    model.shape.validate()?;
    let config = model.config();
    config.validate()?;
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).map_err(ModelError::file(folder))?;
    let parameters = Parameters::random(&config, model.seed, model.shape.deviation as f32, &Device::Cpu)?;
    save_parameters(folder, &parameters, SaveOptions::default())?;
    save_config(folder, &config.to_json()?, DType::F32)?;
    let files = [
        (name::TOKENIZER, character_tokenizer()),
        (name::TOKENIZER_CONFIG, tokenizer_config(config.max_position_embeddings)),
        (name::GENERATION_CONFIG, json!({"eos_token_id": END, "pad_token_id": PAD})),
        (MARKER, marker.clone()),
    ];
    for (name, value) in files {
        let path = folder.join(name);
        evenkeel_host::write(&path, format!("{value:#}\n")).map_err(ModelError::file(&path))?;
    }
    evenkeel_host::sync_folder(folder).map_err(ModelError::file(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(seed: u64) -> FreshModel {
        FreshModel { shape: FreshShape::default(), seed }
    }

    #[test]
    fn the_same_seed_writes_the_same_folder_once() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| dir.path().join(name));
        for (folder, seed) in [(&a, 1), (&b, 1), (&c, 2), (&a, 1)] {
            write_fresh_model(folder, &model(seed)).unwrap();
        }
        let weights = |folder: &Path| std::fs::read(folder.join("model.safetensors")).unwrap();
        assert_eq!(weights(&a), weights(&b));
        assert_ne!(weights(&a), weights(&c));
        let (config, _) = Config::load(&a).unwrap();
        let parameters = crate::folder::load_parameters(&a, &config, &Device::Cpu).unwrap();
        assert_eq!(parameters.count(), 320_352);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3, "nothing is left next to the folders");
    }

    #[test]
    fn a_folder_of_something_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("model");
        write_fresh_model(&folder, &model(1)).unwrap();
        assert!(write_fresh_model(&folder, &model(2)).unwrap_err().to_string().contains("was written from"));
        let other = dir.path().join("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("thesis.tex"), "").unwrap();
        assert!(write_fresh_model(&other, &model(1)).unwrap_err().to_string().contains("holds something else"));
        assert!(other.join("thesis.tex").exists());
    }
}
