//! A folder and its files as text.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_host::{FileDigest, ReadError, read_while};
use serde_json::Value;

use crate::error::FolderError;

/// Names of the files in a model folder.
pub mod name {
    pub const CONFIG: &str = "config.json";
    /// The weights of a model in one file.
    pub const WEIGHTS: &str = "model.safetensors";
    /// Which file has which tensor, where there are several.
    pub const WEIGHTS_INDEX: &str = "model.safetensors.index.json";
    /// What a LoRA adapter is, in PEFT's layout.
    pub const ADAPTER_CONFIG: &str = "adapter_config.json";
    /// The tensors of a LoRA adapter.
    pub const ADAPTER_WEIGHTS: &str = "adapter_model.safetensors";
    /// Defaults for sampling, and the end-of-sequence tokens.
    pub const GENERATION_CONFIG: &str = "generation_config.json";
    pub const TOKENIZER: &str = "tokenizer.json";
    /// Which of the tokenizer's tokens are special, and the chat template of older folders.
    pub const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
    /// Special tokens by their names, in older folders.
    pub const SPECIAL_TOKENS_MAP: &str = "special_tokens_map.json";
    pub const CHAT_TEMPLATE: &str = "chat_template.jinja";
    /// The chat template of a processor, in JSON.
    pub const CHAT_TEMPLATE_JSON: &str = "chat_template.json";
    /// The folder of further chat templates.
    pub const CHAT_TEMPLATES: &str = "additional_chat_templates";
}

/// What an engine reads besides `config.json` and the weights. Copied along when weights are published.
pub const COMPANION_FILES: &[&str] = &[
    "added_tokens.json",
    name::CHAT_TEMPLATE,
    name::CHAT_TEMPLATE_JSON,
    name::GENERATION_CONFIG,
    "merges.txt",
    name::SPECIAL_TOKENS_MAP,
    name::TOKENIZER,
    name::TOKENIZER_CONFIG,
    "vocab.json",
];

/// Largest configuration file or chat template, in bytes.
const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// A model folder, and how much of it may be read.
#[derive(Clone)]
pub struct Folder {
    path: PathBuf,
    max_tokenizer_bytes: u64,
    is_wanted: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Folder {
    /// The folder of a model that the user trusts: a `tokenizer.json` of any size, read to its end.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), max_tokenizer_bytes: u64::MAX, is_wanted: Arc::new(|| true) }
    }

    /// Refuses a larger `tokenizer.json`.
    #[must_use]
    pub fn with_max_tokenizer_bytes(self, max_tokenizer_bytes: u64) -> Self {
        Self { max_tokenizer_bytes, ..self }
    }

    /// Stops reading, with [`FolderError::Cancelled`], soon after `is_wanted` becomes false.
    #[must_use]
    pub fn read_while(self, is_wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { is_wanted: Arc::new(is_wanted), ..self }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The digest of `tokenizer.json` by which services compare their tokenizers: `sha256:` and hex digits.
    ///
    /// # Errors
    /// A folder without that file, or one that cannot be read.
    pub fn tokenizer_digest(&self) -> Result<String, FolderError> {
        let path = self.path.join(name::TOKENIZER);
        FileDigest::of(&path).map(|digest| digest.to_string()).map_err(|error| FolderError::of(&path, error))
    }

    pub(crate) fn tokenizer_bytes(&self) -> Result<Option<Vec<u8>>, FolderError> {
        self.optional(name::TOKENIZER, self.max_tokenizer_bytes)
    }

    /// A small text file; `None` where the folder has none of that name.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, FolderError> {
        let Some(bytes) = self.optional(name, MAX_CONFIG_BYTES)? else { return Ok(None) };
        String::from_utf8(bytes).map(Some).map_err(|error| FolderError::of(self.path.join(name), error))
    }

    /// A small JSON file; `None` where the folder has none of that name.
    pub fn json(&self, name: &str) -> Result<Option<Value>, FolderError> {
        let Some(bytes) = self.optional(name, MAX_CONFIG_BYTES)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| FolderError::of(self.path.join(name), error))
    }

    fn optional(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, FolderError> {
        let path = self.path.join(name);
        match read_while(&path, max_bytes, &*self.is_wanted) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(ReadError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(ReadError::Cancelled) => Err(FolderError::Cancelled),
            Err(error) => Err(FolderError::of(path, error)),
        }
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tokenizer;

    #[test]
    fn a_tokenizer_is_read_within_the_limit_and_while_somebody_waits() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        assert!(Tokenizer::read(&folder).unwrap().is_none(), "none where there is no file");
        assert!(folder.tokenizer_digest().is_err());
        std::fs::write(dir.path().join("tokenizer.json"), "{\"version\": 1}").unwrap();
        let error = Tokenizer::read(&folder.clone().with_max_tokenizer_bytes(3)).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json") && error.ends_with("allowed: at most 3"), "{error}");
        let cancelled = Tokenizer::read(&folder.read_while(|| false));
        assert!(matches!(cancelled, Err(FolderError::Cancelled)));
    }

    #[test]
    fn broken_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        assert_eq!(folder.json("config.json").unwrap(), None);
        std::fs::write(dir.path().join("config.json"), "{").unwrap();
        let error = folder.json("config.json").unwrap_err().to_string();
        assert!(error.contains("config.json: is not JSON"), "{error}");
        std::fs::write(dir.path().join("chat_template.jinja"), b"\xff").unwrap();
        let error = folder.text("chat_template.jinja").unwrap_err().to_string();
        assert!(error.contains("chat_template.jinja: is not UTF-8"), "{error}");
    }
}
