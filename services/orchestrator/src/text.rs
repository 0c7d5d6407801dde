//! The tokenizer of a run: prompts to ids before it starts, responses to text for the verifier.

use std::path::Path;
use std::sync::Arc;

use evenkeel_chat::end_tokens;
use evenkeel_model_folder::{ConfigFile, Folder, FolderError, TextError};

use crate::error::RunError;

/// A tokenizer with the token that ends a response.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: Arc<evenkeel_model_folder::Tokenizer>,
    end: Option<u32>,
    ends: Arc<[u32]>,
    end_of_turn: Option<u32>,
}

impl Tokenizer {
    /// Reads the tokenizer of a model folder. The end of a response is `eos_token` of `tokenizer_config.json`, or else
    /// the first `eos_token_id` of `generation_config.json` or `config.json`, or else the end of a turn in the chat
    /// template.
    ///
    /// # Errors
    /// A file that is missing or broken; an end that tokenizer or model do not have; a token that the model does not
    /// have.
    pub fn load(folder: &Path) -> Result<Self, RunError> {
        let folder = Folder::new(folder);
        Ok(Self::of(&folder, &ConfigFile::read(&folder)?)?)
    }

    pub(crate) fn of(folder: &Folder, config: &ConfigFile) -> Result<Self, FolderError> {
        let inner = evenkeel_model_folder::Tokenizer::require(folder)?;
        inner.validate_vocabulary(config.vocab_size()?)?;
        let ends = end_tokens(folder, config, Some(&inner))?;
        let all = ends.tokenizer.into_iter().chain(ends.others()).collect();
        Ok(Self { inner: Arc::new(inner), end: ends.first(), ends: all, end_of_turn: ends.template_alone() })
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

    /// The text of ids, special tokens as the vocabulary spells them.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub(crate) fn decode_all(&self, ids: &[u32]) -> Result<String, RunError> {
        self.inner.decode(ids, false).map_err(failed)
    }

    /// The tokenizer, without the chat template.
    pub(crate) fn shared(&self) -> Arc<evenkeel_model_folder::Tokenizer> {
        Arc::clone(&self.inner)
    }

    /// The token that ends a response, where the folder names one.
    pub fn end_id(&self) -> Option<u32> {
        self.end
    }

    /// All tokens at which an engine may end a response by itself, as the folder names them.
    pub fn ends(&self) -> &Arc<[u32]> {
        &self.ends
    }

    /// The end of a turn in the chat template, where the folder's files do not name it: engines have to be asked to
    /// stop there.
    pub fn end_of_turn(&self) -> Option<u32> {
        self.end_of_turn
    }

    /// The vocabulary's spelling of an id.
    pub(crate) fn token(&self, id: u32) -> String {
        self.inner.token(id).unwrap_or_default()
    }

    /// Whether an id stands for a piece of text.
    pub(crate) fn is_plain(&self, id: u32) -> bool {
        !self.inner.is_special(id) && self.inner.token(id).is_some()
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
    RunError::model(evenkeel_model_folder::name::TOKENIZER, error)
}
