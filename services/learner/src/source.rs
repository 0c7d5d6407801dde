//! The files of a model besides its weights, which are copied to new folders.

use std::path::{Path, PathBuf};

use candle_core::DType;
use evenkeel_model::Config;
use evenkeel_model::folder::config_text;
use evenkeel_model_folder::{COMPANION_FILES, Folder, name, with_head_tied, with_head_written_out};
use serde_json::Value;

use crate::error::{LearnerError, Result};

/// Where a model came from.
pub(crate) struct ModelSource {
    /// `config.json` as it was read, of a model whose head was written out that of its source.
    config_json: Value,
    /// The folder with tokenizer files; absent for a model created in memory.
    folder: Option<PathBuf>,
}

impl ModelSource {
    /// A model that was opened from a folder.
    pub(crate) fn opened(folder: &Path, config_json: Value) -> Self {
        Self { config_json: with_head_tied(config_json), folder: Some(folder.to_owned()) }
    }

    /// A model without files.
    ///
    /// # Errors
    /// Capabilities for which its architecture's files have no words.
    pub(crate) fn memory(config: &Config) -> Result<Self> {
        Ok(Self { config_json: config.to_json()?, folder: None })
    }

    /// The folder that the model was opened from; absent for a model created in memory.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Writes `config.json` for weights of a type, and for a tied head that is written out or not. It is not synced.
    pub(crate) fn write_config(&self, to: &Path, dtype: DType, head_written_out: bool) -> Result<()> {
        let config = self.config_json.clone();
        let config = if head_written_out { with_head_written_out(config) } else { config };
        let path = to.join(name::CONFIG);
        std::fs::write(&path, config_text(&config, dtype)).map_err(LearnerError::file(&path))
    }

    /// Copies tokenizer and generation files. They are not synced.
    pub(crate) fn copy_companions(&self, to: &Path) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        for name in COMPANION_FILES {
            let from = folder.join(name);
            if from.exists() {
                let bytes = std::fs::read(&from).map_err(LearnerError::file(&from))?;
                let to = to.join(name);
                std::fs::write(&to, bytes).map_err(LearnerError::file(&to))?;
            }
        }
        Ok(())
    }

    /// `sha256:` and the digest of tokenizer.json; `None` without that file.
    pub(crate) fn tokenizer_digest(&self) -> Option<String> {
        Folder::new(self.folder.as_ref()?).tokenizer_digest().ok()
    }
}
