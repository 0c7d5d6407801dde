//! Conversion between text and token ids.
//!
//! Handlers of requests use the tokenizer on their own threads; the scheduler converts text only for requests with stop
//! texts.

mod transcript;

pub(crate) use transcript::{Stopped, Transcript};

use std::sync::OnceLock;

use evenkeel_model_folder::TextError;

/// The character for bytes that are not a complete character.
const REPLACEMENT: char = '\u{fffd}';
/// Maximum number of tokens of a character, which has up to four bytes.
pub(crate) const CHARACTER_TOKENS: usize = 4;
/// Last ids of the prompt on which a completion's text may depend if the decoder looks at neighbours.
const CONTEXT: usize = 16;

/// A model's tokenizer, with a cache of the text of each id.
pub(crate) struct Tokenizer {
    inner: evenkeel_model_folder::Tokenizer,
    /// The text of each id by itself, decoded on first use.
    pieces: Vec<OnceLock<Box<str>>>,
    /// Whether the text of several ids is the concatenation of their texts, as far as these are complete characters.
    is_concatenative: bool,
}

impl Tokenizer {
    /// For a model with `vocabulary` ids.
    pub(crate) fn new(inner: evenkeel_model_folder::Tokenizer, vocabulary: usize) -> Self {
        let is_concatenative = inner.is_concatenative();
        Self { inner, pieces: (0..vocabulary).map(|_| OnceLock::new()).collect(), is_concatenative }
    }

    /// The ids of a text. `add_special` adds what the tokenizer puts around every text, such as a beginning of
    /// sequence.
    pub(crate) fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, TextError> {
        self.inner.encode(text, add_special)
    }

    /// The text of ids; unknown ids are skipped.
    pub(crate) fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> String {
        // The library fails for decoders that cannot split a list of tokens; those have no text.
        self.inner.decode(ids, skip_special_tokens).unwrap_or_default()
    }

    /// The vocabulary's own spelling of an id.
    pub(crate) fn token(&self, id: u32) -> Option<String> {
        self.inner.token(id)
    }

    /// The text of one id by itself.
    fn piece(&self, id: u32) -> &str {
        match self.pieces.get(id as usize) {
            Some(piece) => piece.get_or_init(|| self.decode(&[id], false).into_boxed_str()),
            None => "",
        }
    }

    fn is_special(&self, id: u32) -> bool {
        self.inner.is_special(id)
    }

    /// The text of an id in a list of log-probabilities, after the ids `before` it.
    ///
    /// A token may be part of a character. The token that completes it shows the whole character, the ones before it
    /// nothing.
    pub(crate) fn shown(&self, id: u32, before: &[u32]) -> String {
        let piece = self.piece(id);
        if !piece.ends_with(REPLACEMENT) {
            return piece.to_owned();
        }
        for count in 1..=before.len().min(CHARACTER_TOKENS) {
            let context = &before[before.len() - count..];
            let whole = self.decode(&[context, &[id]].concat(), false);
            if whole.ends_with(REPLACEMENT) {
                continue;
            }
            // Tokens that showed nothing belong to this one; earlier text was shown.
            let parts = context.iter().rev().take_while(|&&id| self.piece(id).ends_with(REPLACEMENT)).count();
            let shown = self.decode(&context[..count - parts], false);
            let common: usize =
                shown.chars().zip(whole.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
            return whole[common..].to_owned();
        }
        String::new()
    }
}

/// Incremental detokenization, complete characters only.
pub(crate) struct Detokenizer {
    /// Ids whose text was emitted, as context for the next ones, then ids whose text was not.
    ids: Vec<u32>,
    /// The emitted text of the former, and their number.
    out: String,
    out_ids: usize,
    skip_special_tokens: bool,
}

impl Detokenizer {
    /// For the text after `prompt`.
    pub(crate) fn new(tokenizer: &Tokenizer, prompt: &[u32], skip_special_tokens: bool) -> Self {
        if tokenizer.is_concatenative {
            return Self { ids: Vec::new(), out: String::new(), out_ids: 0, skip_special_tokens };
        }
        let ids = prompt[prompt.len().saturating_sub(CONTEXT)..].to_vec();
        let out = tokenizer.decode(&ids, skip_special_tokens);
        let out_ids = ids.len();
        Self { ids, out, out_ids, skip_special_tokens }
    }

    /// Appends the text that `id` adds.
    pub(crate) fn push(&mut self, tokenizer: &Tokenizer, id: u32, text: &mut String) {
        if tokenizer.is_concatenative && self.ids.is_empty() {
            if self.skip_special_tokens && tokenizer.is_special(id) {
                return;
            }
            let piece = tokenizer.piece(id);
            if !piece.contains(REPLACEMENT) {
                text.push_str(piece);
                return;
            }
        }
        self.ids.push(id);
        let whole = tokenizer.decode(&self.ids, self.skip_special_tokens);
        if whole.len() <= self.out.len() || whole.ends_with(REPLACEMENT) {
            return;
        }
        match whole.strip_prefix(&self.out) {
            Some(new) => text.push_str(new),
            // The decoder changed earlier text, which cannot be continued: start over with this id.
            None => {
                self.out_ids = self.ids.len() - 1;
                text.push_str(&tokenizer.decode(&[id], self.skip_special_tokens));
            }
        }
        self.ids.drain(..self.out_ids);
        if tokenizer.is_concatenative {
            self.ids.clear();
        }
        self.out = tokenizer.decode(&self.ids, self.skip_special_tokens);
        self.out_ids = self.ids.len();
    }
}

#[cfg(test)]
mod tests;
