//! The tokenizer of a run: prompts to ids before it starts, responses to text for the verifier.

use std::path::Path;
use std::sync::Arc;

use evenkeel_hf::{ConfigFile, EndTokens, Folder, FolderError, TextError};

use crate::error::RunError;

/// A tokenizer with the token that ends a response.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: Arc<evenkeel_hf::Tokenizer>,
    end: Option<u32>,
}

impl Tokenizer {
    /// Reads the tokenizer of a model folder. The end of a response is `eos_token` of `tokenizer_config.json`, or else the first
    /// `eos_token_id` of `generation_config.json` or `config.json`.
    ///
    /// # Errors
    /// A file that is missing or broken; an end that tokenizer or model do not have; a token that the model does not have.
    pub fn load(folder: &Path) -> Result<Self, RunError> {
        let folder = Folder::new(folder);
        Ok(Self::of(&folder, &ConfigFile::read(&folder)?)?)
    }

    pub(crate) fn of(folder: &Folder, config: &ConfigFile) -> Result<Self, FolderError> {
        let inner = evenkeel_hf::Tokenizer::require(folder)?;
        inner.check_fits(config.vocab_size()?)?;
        let end = EndTokens::read(folder, config, Some(&inner))?.first();
        Ok(Self { inner: Arc::new(inner), end })
    }

    /// The ids of a text, without special tokens that it does not spell out.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, RunError> {
        self.inner.encode(text, false).map_err(failed)
    }

    /// The text of ids, special tokens left out.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn decode(&self, ids: &[u32]) -> Result<String, RunError> {
        self.inner.decode(ids, true).map_err(failed)
    }

    /// The tokenizer alone.
    pub(crate) fn shared(&self) -> Arc<evenkeel_hf::Tokenizer> {
        Arc::clone(&self.inner)
    }

    /// The token that ends a response, where the folder names one.
    pub fn end_id(&self) -> Option<u32> {
        self.end
    }

    /// Ids are below it.
    pub fn vocabulary_size(&self) -> u32 {
        self.inner.vocabulary_size()
    }

    /// Digest of `tokenizer.json`: `sha256:` and hex digits.
    pub fn digest(&self) -> &str {
        self.inner.digest()
    }
}

fn failed(error: TextError) -> RunError {
    RunError::model(evenkeel_hf::name::TOKENIZER, error)
}
