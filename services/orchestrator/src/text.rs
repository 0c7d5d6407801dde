//! The tokenizer of a model folder: prompts to ids before a run, answers to text for the verifier.

use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::RunError;
use crate::load::{Loading, small_file};

/// A tokenizer with the token that ends an answer.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    end: Option<u32>,
    digest: String,
}

impl Tokenizer {
    /// Reads `tokenizer.json` of a model folder; the end of an answer is `eos_token` of `tokenizer_config.json`, or else
    /// `eos_token_id` of `generation_config.json` or `config.json`.
    ///
    /// # Errors
    /// A file that is missing or broken; an `eos_token` that the tokenizer does not have.
    pub fn load(folder: &Path) -> Result<Self, RunError> {
        Self::load_within(folder, &Loading::default())
    }

    /// The same within limits.
    pub(crate) fn load_within(folder: &Path, loading: &Loading) -> Result<Self, RunError> {
        let path = folder.join("tokenizer.json");
        let bytes = loading.tokenizer(&path)?;
        let inner = tokenizers::Tokenizer::from_bytes(&bytes)
            .map_err(|error| RunError::model(&path, format!("is no tokenizer: {error}")))?;
        let end = end_id(folder, &inner)?;
        Ok(Self { inner, end, digest: format!("sha256:{:x}", Sha256::digest(&bytes)) })
    }

    /// The ids of a text, without any that it does not spell out.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, RunError> {
        let encoding = self.inner.encode_fast(text, false);
        Ok(encoding.map_err(|error| RunError::model("tokenizer.json", error))?.get_ids().to_vec())
    }

    /// The text of ids, special tokens left out.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn decode(&self, ids: &[u32]) -> Result<String, RunError> {
        self.inner.decode(ids, true).map_err(|error| RunError::model("tokenizer.json", error))
    }

    /// The token that ends an answer, where the folder names one.
    pub fn end_id(&self) -> Option<u32> {
        self.end
    }

    /// Ids are below it.
    pub fn vocabulary_size(&self) -> u32 {
        let ids = self.inner.get_vocab(true).into_values();
        ids.max().map_or(0, |largest| largest.saturating_add(1))
    }

    /// Digest of `tokenizer.json`, `sha256:` and hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

fn end_id(folder: &Path, tokenizer: &tokenizers::Tokenizer) -> Result<Option<u32>, RunError> {
    if let Some(json) = optional_json(&folder.join("tokenizer_config.json"))? {
        let token = json.get("eos_token").and_then(|token| token.as_str().or_else(|| token.get("content")?.as_str()));
        if let Some(token) = token {
            let missing = || {
                let message = format!("`eos_token` is {token:?}, which tokenizer.json does not have");
                RunError::model(folder.join("tokenizer_config.json"), message)
            };
            return tokenizer.token_to_id(token).ok_or_else(missing).map(Some);
        }
    }
    for name in ["generation_config.json", "config.json"] {
        let json = optional_json(&folder.join(name))?.unwrap_or_default();
        let value = json.get("eos_token_id").cloned().unwrap_or_default();
        let first = value.as_array().and_then(|ids| ids.first().cloned()).unwrap_or(value);
        if let Some(id) = first.as_u64().and_then(|id| id.try_into().ok()) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

pub(crate) fn optional_json(path: &Path) -> Result<Option<Value>, RunError> {
    let Some(bytes) = small_file(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| RunError::model(path, format!("is not JSON: {error}")))
}
