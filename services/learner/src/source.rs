//! The files that a model came with: what is copied beside new weights.

use std::path::{Path, PathBuf};

use candle_core::DType;
use evenkeel_model::Config;
use evenkeel_model::folder::save_config;
use serde_json::Value;

use crate::digest::digest;
use crate::error::{LearnerError, Result};
use crate::files::write_file;

/// Files beside the weights that an engine needs; copied where the source has them.
const COMPANIONS: &[&str] = &[
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
];

/// Where a model came from.
pub(crate) struct ModelSource {
    /// `config.json` as it was read.
    config_json: Value,
    /// The folder with tokenizer files; absent where the model was made in memory.
    folder: Option<PathBuf>,
}

impl ModelSource {
    /// A model that was opened from a folder.
    pub(crate) fn folder(folder: &Path, config_json: Value) -> Self {
        Self { config_json, folder: Some(folder.to_owned()) }
    }

    /// A model without files.
    pub(crate) fn memory(config: &Config) -> Self {
        Self { config_json: config.to_json(), folder: None }
    }

    /// Writes `config.json` for weights of a type.
    pub(crate) fn write_config(&self, to: &Path, dtype: DType) -> Result<()> {
        Ok(save_config(to, &self.config_json, dtype)?)
    }

    /// Copies tokenizer and generation files.
    pub(crate) fn copy_companions(&self, to: &Path) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        for name in COMPANIONS {
            let from = folder.join(name);
            if from.exists() {
                let bytes = std::fs::read(&from).map_err(LearnerError::file(&from))?;
                write_file(&to.join(name), &bytes)?;
            }
        }
        Ok(())
    }

    /// `sha256:` and the digest of tokenizer.json; none where there is no such file.
    pub(crate) fn tokenizer_digest(&self) -> Option<String> {
        let path = self.folder.as_ref()?.join("tokenizer.json");
        digest(&path).ok().map(|found| format!("sha256:{}", found.sha256))
    }
}
