//! The tokenizer of a model folder, from `tokenizer.json`.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;

use evenkeel_errors::FieldError;
use evenkeel_host::FieldsDigest;
use tokenizers::decoders::DecoderWrapper;

use crate::error::FolderError;
use crate::folder::{Folder, name};
use crate::growth::{Growth, MAX_TEXT};

/// Text or ids that the tokenizer cannot convert.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tokenizer failed: {0}")]
pub struct TextError(String);

impl TextError {
    pub(crate) fn new(error: impl ToString) -> Self {
        Self(error.to_string())
    }
}

/// A model's tokenizer. Cheap to share behind an `Arc`, not to clone.
#[derive(Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    special: HashSet<u32>,
    vocabulary_size: u32,
    path: PathBuf,
    digest: String,
    growth: Growth,
}

impl Tokenizer {
    /// Reads the tokenizer; `None` where the folder has none. Truncation and padding that a training script once stored
    /// in the file are switched off.
    ///
    /// # Errors
    /// A file that cannot be read or is not a tokenizer.
    pub fn read(folder: &Folder) -> Result<Option<Self>, FolderError> {
        let path = folder.path().join(name::TOKENIZER);
        let Some(bytes) = folder.tokenizer_bytes()? else { return Ok(None) };
        let broken = |error: tokenizers::Error| FolderError::file(&path, format_args!("is not a tokenizer: {error}"));
        // Parsed by code of the library's own crate: `from_bytes` would be compiled again in this one.
        let text = std::str::from_utf8(&bytes).map_err(|error| broken(error.into()))?;
        let file: serde_json::Value = serde_json::from_str(text).map_err(|error| broken(error.into()))?;
        let growth = Growth::of_file(&file).map_err(|problem| FolderError::of(&path, problem))?;
        drop(file);
        let mut inner: tokenizers::Tokenizer = text.parse().map_err(broken)?;
        inner.with_truncation(None).map_err(broken)?.with_padding(None);
        let added = inner.get_added_tokens_decoder();
        let special = added.into_iter().filter(|(_, token)| token.special).map(|(id, _)| id).collect();
        let largest = inner.get_vocab(true).into_values().max();
        let vocabulary_size = largest.map_or(0, |largest| largest.saturating_add(1));
        let digest = evenkeel_host::sha256(&bytes);
        Ok(Some(Self { inner, special, vocabulary_size, path, digest, growth }))
    }

    /// Reads the tokenizer as [`read`](Self::read) does, where the folder must have one.
    ///
    /// # Errors
    /// As [`read`](Self::read), and a folder without a tokenizer.
    pub fn require(folder: &Folder) -> Result<Self, FolderError> {
        let missing = || FolderError::file(folder.path().join(name::TOKENIZER), "is missing");
        Self::read(folder)?.ok_or_else(missing)
    }

    /// Refuses a tokenizer with ids that a model of `vocab_size` tokens does not have.
    ///
    /// # Errors
    /// The token with the largest id.
    pub fn validate_vocabulary(&self, vocab_size: u32) -> Result<(), FolderError> {
        if self.vocabulary_size <= vocab_size {
            return Ok(());
        }
        let id = self.vocabulary_size - 1;
        let token = self.token(id).unwrap_or_default();
        let allowed = format!("0 to vocab_size - 1 = {} (config.json)", vocab_size.saturating_sub(1));
        Err(FolderError::file(&self.path, FieldError::new(format!("the id of {token:?}"), id, allowed)))
    }

    /// The ids of a text. `add_special` adds what the tokenizer puts around every text, such as a beginning of
    /// sequence.
    ///
    /// # Errors
    /// What the tokenizer says; a text that may become too long for it.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, TextError> {
        self.validate_length(text)?;
        let encoding = self.inner.encode_fast(text, add_special).map_err(TextError::new)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The ids of a text with the bytes that each stands for.
    pub(crate) fn encoding(&self, text: &str) -> Result<tokenizers::Encoding, TextError> {
        self.validate_length(text)?;
        self.inner.encode(text, false).map_err(TextError::new)
    }

    fn validate_length(&self, text: &str) -> Result<(), TextError> {
        let grown = self.growth.of(text.len());
        if grown <= MAX_TEXT {
            return Ok(());
        }
        let bytes = text.len();
        Err(TextError(format!("a text of {bytes} bytes may become {grown}, allowed: at most {MAX_TEXT}")))
    }

    pub(crate) fn inner(&self) -> &tokenizers::Tokenizer {
        &self.inner
    }

    /// The text of ids; ids without a token are left out.
    ///
    /// # Errors
    /// What the tokenizer says: a decoder that cannot take these tokens apart.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TextError> {
        self.inner.decode(ids, skip_special).map_err(TextError::new)
    }

    /// The vocabulary's spelling of an id.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The id that the vocabulary spells so.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Whether [`decode`](Self::decode) leaves the id out when it skips special tokens.
    pub fn is_special(&self, id: u32) -> bool {
        self.special.contains(&id)
    }

    /// Ids are below it.
    pub fn vocabulary_size(&self) -> u32 {
        self.vocabulary_size
    }

    /// Whether the text of several ids is the concatenation of their texts, wherever these are whole characters.
    pub fn is_concatenative(&self) -> bool {
        matches!(self.inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_) | DecoderWrapper::Fuse(_)))
    }

    /// Digest of what each id stands for and whether it is special: `sha256:` and hex digits. Files that only differ in
    /// how text becomes ids, or in the order of their keys, have one.
    pub fn vocabulary_digest(&self) -> String {
        let mut digest = FieldsDigest::new();
        for id in 0..self.vocabulary_size {
            let kind = if self.is_special(id) { "special" } else { "ordinary" };
            digest.text(kind).text(&self.token(id).unwrap_or_default());
        }
        digest.finish_named()
    }

    /// Digest of the file: `sha256:` and hex digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer").field("path", &self.path).field("digest", &self.digest).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A tokenizer of words, with `<eos>` as the special id 0.
    pub(crate) fn words() -> Value {
        json!({
            "version": "1.0",
            "truncation": {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0},
            "padding": null,
            "added_tokens": [{"id": 0, "content": "<eos>", "single_word": false, "lstrip": false, "rstrip": false,
                              "normalized": false, "special": true}],
            "normalizer": null,
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": null,
            "decoder": null,
            "model": {"type": "WordLevel", "vocab": {"<eos>": 0, "a": 1, "b": 2}, "unk_token": "a"},
        })
    }

    #[test]
    fn text_becomes_ids_and_ids_become_text() {
        let dir = tempfile::tempdir().unwrap();
        let text = words().to_string();
        std::fs::write(dir.path().join("tokenizer.json"), &text).unwrap();
        let folder = Folder::new(dir.path());
        let tokenizer = Tokenizer::require(&folder).unwrap();
        assert_eq!(tokenizer.encode("a b b", false).unwrap(), [1, 2, 2], "the truncation of the file is off");
        assert_eq!(tokenizer.decode(&[1, 2, 0], true).unwrap(), "a b");
        assert_eq!(tokenizer.decode(&[1, 2, 0], false).unwrap(), "a b <eos>");
        assert_eq!((tokenizer.id("b"), tokenizer.token(2).as_deref(), tokenizer.id("c")), (Some(2), Some("b"), None));
        assert_eq!((tokenizer.is_special(0), tokenizer.is_special(1)), (true, false));
        assert_eq!(tokenizer.vocabulary_size(), 3);
        assert!(!tokenizer.is_concatenative());
        assert_eq!(tokenizer.digest(), evenkeel_host::sha256(&text));
        assert_eq!(tokenizer.digest(), folder.tokenizer_digest().unwrap());
    }

    #[test]
    fn the_digest_of_a_vocabulary_is_that_of_ids_texts_and_special_tokens_alone() {
        let digest = |change: fn(&mut Value)| {
            let mut file = words();
            change(&mut file);
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("tokenizer.json"), file.to_string()).unwrap();
            Tokenizer::require(&Folder::new(dir.path())).unwrap().vocabulary_digest()
        };
        let plain = digest(|_| ());
        assert!(plain.starts_with("sha256:"));
        assert_eq!(digest(|file| file["truncation"] = Value::Null), plain);
        assert_eq!(digest(|file| file["pre_tokenizer"] = json!({"type": "Whitespace"})), plain);
        let changes: [fn(&mut Value); 3] = [
            |file| file["model"]["vocab"] = json!({"<eos>": 0, "a": 2, "b": 1}),
            |file| file["model"]["vocab"]["c"] = 3.into(),
            |file| file["added_tokens"][0]["special"] = false.into(),
        ];
        for change in changes {
            assert_ne!(digest(change), plain);
        }
    }

    #[test]
    fn a_tokenizer_must_fit_the_model() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tokenizer.json"), words().to_string()).unwrap();
        let tokenizer = Tokenizer::require(&Folder::new(dir.path())).unwrap();
        assert!(tokenizer.validate_vocabulary(3).is_ok());
        let error = tokenizer.validate_vocabulary(2).unwrap_err().to_string();
        let end = "tokenizer.json: the id of \"b\" is 2, allowed: 0 to vocab_size - 1 = 1 (config.json)";
        assert!(error.ends_with(end), "{error}");
    }

    #[test]
    fn a_file_that_is_no_tokenizer_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        assert!(Tokenizer::require(&folder).unwrap_err().to_string().contains("tokenizer.json: is missing"));
        std::fs::write(dir.path().join("tokenizer.json"), "{}").unwrap();
        let error = Tokenizer::read(&folder).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json: is not a tokenizer"), "{error}");
    }
}
