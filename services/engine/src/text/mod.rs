//! Between text and token ids.
//!
//! The tokenizer is used by whoever answers clients, on their threads; the scheduler touches text only for requests that stop
//! at one.

mod transcript;

pub(crate) use transcript::{Stopped, Transcript};

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;
use tokenizers::decoders::DecoderWrapper;

use crate::error::EngineError;

/// What stands for bytes that are no whole character.
const REPLACEMENT: char = '\u{fffd}';
/// Ids of the prompt that a completion's text may depend on where a decoder looks at neighbours.
const CONTEXT: usize = 16;

/// A model's tokenizer.
pub(crate) struct Tokenizer {
    inner: tokenizers::Tokenizer,
    special: HashMap<u32, ()>,
    /// Text of each id alone, made when it is first asked for.
    pieces: Vec<OnceLock<Box<str>>>,
    /// Whether the text of several ids is their texts, one after the other, wherever these are whole characters.
    joins_plainly: bool,
}

impl Tokenizer {
    /// Reads `tokenizer.json` for a model with `vocabulary` ids.
    pub(crate) fn load(path: &Path, vocabulary: usize) -> Result<Self, EngineError> {
        let bytes = std::fs::read(path).map_err(|error| EngineError::file(path, error.to_string()))?;
        let mut inner = tokenizers::Tokenizer::from_bytes(&bytes)
            .map_err(|error| EngineError::file(path, format!("is no tokenizer: {error}")))?;
        let broken = |error: tokenizers::Error| EngineError::file(path, error.to_string());
        // What a training script once set in the file is no business of a server.
        inner.with_truncation(None).map_err(broken)?.with_padding(None);
        let largest = inner.get_vocab(true).into_iter().max_by_key(|&(_, id)| id);
        if let Some((token, id)) = largest.filter(|&(_, id)| id as usize >= vocabulary) {
            let reason =
                format!("token {token:?} has id {id}, config.json allows 0 to vocab_size - 1 = {}", vocabulary - 1);
            return Err(EngineError::file(path, reason));
        }
        let added = inner.get_added_tokens_decoder();
        let special = added.into_iter().filter(|(_, token)| token.special).map(|(id, _)| (id, ())).collect();
        let joins_plainly = matches!(inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_) | DecoderWrapper::Fuse(_)));
        let pieces = (0..vocabulary).map(|_| OnceLock::new()).collect();
        Ok(Self { inner, special, pieces, joins_plainly })
    }

    /// The ids of a text. `add_special` adds what the tokenizer puts around every text (a beginning of sequence).
    pub(crate) fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, String> {
        let encoding = self.inner.encode_fast(text, add_special).map_err(|error| error.to_string())?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of ids; those that have none are left out.
    pub(crate) fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        // The library fails here for decoders that cannot take a list of tokens apart, which have no text to give.
        self.inner.decode(ids, skip_special).unwrap_or_default()
    }

    /// The vocabulary's own spelling of an id.
    pub(crate) fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The id that the vocabulary spells so.
    pub(crate) fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The text of one id alone.
    fn piece(&self, id: u32) -> &str {
        match self.pieces.get(id as usize) {
            Some(piece) => piece.get_or_init(|| self.decode(&[id], false).into_boxed_str()),
            None => "",
        }
    }

    fn is_special(&self, id: u32) -> bool {
        self.special.contains_key(&id)
    }

    /// The text of an id as a list of log-probabilities shows it, behind the ids `before` it.
    ///
    /// A token may be a part of a character. The one that completes it shows the whole character, those before it nothing.
    pub(crate) fn shown(&self, id: u32, before: &[u32]) -> String {
        let piece = self.piece(id);
        if !piece.ends_with(REPLACEMENT) {
            return piece.to_owned();
        }
        for count in 1..=before.len().min(4) {
            let context = &before[before.len() - count..];
            let whole = self.decode(&[context, &[id]].concat(), false);
            if whole.ends_with(REPLACEMENT) {
                continue;
            }
            // What showed nothing belongs to this token; what stands before it was shown.
            let parts = context.iter().rev().take_while(|&&id| self.piece(id).ends_with(REPLACEMENT)).count();
            let shown = self.decode(&context[..count - parts], false);
            let common: usize =
                shown.chars().zip(whole.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
            return whole[common..].to_owned();
        }
        String::new()
    }
}

/// The `eos_token` of a `tokenizer_config.json`: a string, or an object with its content.
pub(crate) fn end_token(config: &Value) -> Option<&str> {
    let token = config.get("eos_token")?;
    token.as_str().or_else(|| token.get("content")?.as_str())
}

/// Turns ids into text as they come, whole characters only.
pub(crate) struct Detokenizer {
    /// Ids whose text is out and is the context of the next, then ids whose text is not out.
    ids: Vec<u32>,
    /// The text of the former, and how many they are.
    out: String,
    out_ids: usize,
    skip_special: bool,
}

impl Detokenizer {
    /// For what follows `prompt`.
    pub(crate) fn new(tokenizer: &Tokenizer, prompt: &[u32], skip_special: bool) -> Self {
        if tokenizer.joins_plainly {
            return Self { ids: Vec::new(), out: String::new(), out_ids: 0, skip_special };
        }
        let ids = prompt[prompt.len().saturating_sub(CONTEXT)..].to_vec();
        let (out, out_ids) = (tokenizer.decode(&ids, skip_special), ids.len());
        Self { ids, out, out_ids, skip_special }
    }

    /// Appends to `text` what `id` adds to it.
    pub(crate) fn push(&mut self, tokenizer: &Tokenizer, id: u32, text: &mut String) {
        if tokenizer.joins_plainly && self.ids.is_empty() {
            if self.skip_special && tokenizer.is_special(id) {
                return;
            }
            let piece = tokenizer.piece(id);
            if !piece.contains(REPLACEMENT) {
                text.push_str(piece);
                return;
            }
        }
        self.ids.push(id);
        let whole = tokenizer.decode(&self.ids, self.skip_special);
        if whole.len() <= self.out.len() || whole.ends_with(REPLACEMENT) {
            return;
        }
        match whole.strip_prefix(&self.out) {
            Some(new) => text.push_str(new),
            // The decoder changed what it had said before: there is no text that continues it, so this id begins anew.
            None => {
                self.out_ids = self.ids.len() - 1;
                text.push_str(&tokenizer.decode(&[id], self.skip_special));
            }
        }
        self.ids.drain(..self.out_ids);
        if tokenizer.joins_plainly {
            self.ids.clear();
        }
        self.out = tokenizer.decode(&self.ids, self.skip_special);
        self.out_ids = self.ids.len();
    }
}

#[cfg(test)]
mod tests;
