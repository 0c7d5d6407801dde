//! The growing text of one sample: where it stops, and how much of it is final.

use std::sync::Arc;

use super::{Detokenizer, Tokenizer};

/// The stop text that ended a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stopped(pub(crate) String);

pub(crate) struct Transcript {
    tokenizer: Arc<Tokenizer>,
    detokenizer: Detokenizer,
    text: String,
    tokens: usize,
    stop: Arc<[String]>,
    include_stop_str_in_output: bool,
    min_tokens: usize,
    /// Characters at the end that may still turn out to begin a stop text.
    held: usize,
    /// Bytes of the text that were taken.
    taken: usize,
}

impl Transcript {
    /// For the text after `prompt`. Nothing stops it before it has more than `min_tokens` tokens.
    pub(crate) fn new(tokenizer: Arc<Tokenizer>, prompt: &[u32], sampling: &crate::sampling::SamplingParams) -> Self {
        let longest = sampling.stop.iter().map(|stop| stop.chars().count()).max().unwrap_or(0);
        Self {
            detokenizer: Detokenizer::new(&tokenizer, prompt, sampling.skip_special_tokens),
            tokenizer,
            text: String::new(),
            tokens: 0,
            stop: sampling.stop.clone(),
            include_stop_str_in_output: sampling.include_stop_str_in_output,
            min_tokens: sampling.min_tokens,
            held: if sampling.include_stop_str_in_output { 0 } else { longest.saturating_sub(1) },
            taken: 0,
        }
    }

    /// Appends a token and returns the stop text that it completed, if any. A token that ended the sample by itself has
    /// no text (`silent`).
    pub(crate) fn push(&mut self, id: u32, silent: bool) -> Option<Stopped> {
        self.tokens += 1;
        if silent && !self.include_stop_str_in_output {
            return None;
        }
        let before = self.text.len();
        self.detokenizer.push(&self.tokenizer, id, &mut self.text);
        if self.tokens <= self.min_tokens || self.text.len() == before {
            return None;
        }
        // The one completed first; on ties, the first in the request.
        let found = self.stop.iter().filter_map(|stop| {
            let from = (0..=before.saturating_sub(stop.len())).rev().find(|&at| self.text.is_char_boundary(at))?;
            let starts = self.text[from..].match_indices(stop.as_str()).map(|(at, _)| from + at);
            let start = starts.into_iter().find(|start| start + stop.len() > before)?;
            Some((start + stop.len(), start, stop))
        });
        let (end, start, stop) = found.min_by_key(|&(end, _, _)| end)?;
        let stopped = Stopped(stop.clone());
        self.text.truncate(if self.include_stop_str_in_output { end } else { start });
        Some(stopped)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The text since the last call, as far as later tokens cannot change it; all of it when the sample has ended.
    pub(crate) fn take_text(&mut self, ended: bool) -> &str {
        let held = if ended { 0 } else { self.held };
        let end = match held {
            0 => self.text.len(),
            held => self.text.char_indices().nth_back(held - 1).map_or(0, |(at, _)| at),
        };
        // A stop text removes what was held, never what was taken.
        let from = self.taken.min(end);
        self.taken = from.max(end);
        &self.text[from..end]
    }
}
