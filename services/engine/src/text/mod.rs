//! Between text and token ids.
//!
//! The tokenizer is used by whoever answers clients, on their threads; the scheduler touches text only for requests that stop
//! at one.

mod transcript;

pub(crate) use transcript::{Stopped, Transcript};

use std::sync::OnceLock;

/// What stands for bytes that are no whole character.
const REPLACEMENT: char = '\u{fffd}';
/// Ids of the prompt that a completion's text may depend on where a decoder looks at neighbours.
const CONTEXT: usize = 16;

/// A model's tokenizer, with the text of each id at hand.
pub(crate) struct Tokenizer {
    inner: evenkeel_hf::Tokenizer,
    /// Text of each id alone, made when it is first needed.
    pieces: Vec<OnceLock<Box<str>>>,
    /// Whether the text of several ids is the concatenation of their texts, wherever these are whole characters.
    is_concatenative: bool,
}

impl Tokenizer {
    /// For a model with `vocabulary` ids.
    pub(crate) fn new(inner: evenkeel_hf::Tokenizer, vocabulary: usize) -> Self {
        let is_concatenative = inner.is_concatenative();
        Self { inner, pieces: (0..vocabulary).map(|_| OnceLock::new()).collect(), is_concatenative }
    }

    /// The ids of a text. `add_special` adds what the tokenizer puts around every text (a beginning of sequence).
    pub(crate) fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, String> {
        self.inner.encode(text, add_special).map_err(|error| error.to_string())
    }

    /// The text of ids; those that have none are left out.
    pub(crate) fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        // The library fails here for decoders that cannot take a list of tokens apart, which have no text to give.
        self.inner.decode(ids, skip_special).unwrap_or_default()
    }

    /// The vocabulary's spelling of an id.
    pub(crate) fn token(&self, id: u32) -> Option<String> {
        self.inner.token(id)
    }

    /// The text of one id alone.
    fn piece(&self, id: u32) -> &str {
        match self.pieces.get(id as usize) {
            Some(piece) => piece.get_or_init(|| self.decode(&[id], false).into_boxed_str()),
            None => "",
        }
    }

    fn is_special(&self, id: u32) -> bool {
        self.inner.is_special(id)
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
        if tokenizer.is_concatenative {
            return Self { ids: Vec::new(), out: String::new(), out_ids: 0, skip_special };
        }
        let ids = prompt[prompt.len().saturating_sub(CONTEXT)..].to_vec();
        let (out, out_ids) = (tokenizer.decode(&ids, skip_special), ids.len());
        Self { ids, out, out_ids, skip_special }
    }

    /// Appends to `text` what `id` adds to it.
    pub(crate) fn push(&mut self, tokenizer: &Tokenizer, id: u32, text: &mut String) {
        if tokenizer.is_concatenative && self.ids.is_empty() {
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
        if tokenizer.is_concatenative {
            self.ids.clear();
        }
        self.out = tokenizer.decode(&self.ids, self.skip_special);
        self.out_ids = self.ids.len();
    }
}

#[cfg(test)]
mod tests;
