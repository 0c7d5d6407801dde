//! A turn that the model sampled, or that a demonstration has: its text, where it ends, and what it says.

use evenkeel_environment::tool_calls::{self, Turn};
use evenkeel_proto::v1::SampledToken;

use super::turns::EpisodeText;
use crate::error::RunError;

/// A turn as it was sampled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SampledTurn<'a> {
    /// Number of the turn, from 1.
    pub(crate) number: u32,
    pub(crate) token_ids: &'a [u32],
    /// Whether the model ended it.
    pub(crate) is_ended: bool,
    /// Whether what was before it ends within `<think>`.
    pub(crate) in_thinking: bool,
    /// The texts of which the first one ends what it says.
    pub(crate) stop: &'a [String],
}

impl EpisodeText {
    /// Takes a turn apart. Returns its text, with special tokens but the one that ended it, as well.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub(crate) fn read(&self, turn: SampledTurn<'_>) -> Result<(String, Turn), RunError> {
        let SampledTurn { number, token_ids, is_ended, in_thinking, stop } = turn;
        let said = match token_ids.split_last() {
            Some((_, said)) if is_ended => said,
            _ => token_ids,
        };
        let text = self.tokenizer.decode_all(said)?;
        let end = stop.iter().filter_map(|stop| text.find(stop)).min().unwrap_or(text.len());
        let turn = tool_calls::parse(self.form, &text[..end], in_thinking, number);
        Ok((text, turn))
    }

    /// The tokens of a turn up to the first that completes one of these texts. `None`: it has none of them.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub(crate) fn stops_after(&self, token_ids: &[u32], stop: &[String]) -> Result<Option<usize>, RunError> {
        let has_any = |tokens: usize| {
            let text = self.tokenizer.decode_all(&token_ids[..tokens])?;
            Ok::<_, RunError>(stop.iter().any(|stop| text.contains(stop)))
        };
        if stop.is_empty() || !has_any(token_ids.len())? {
            return Ok(None);
        }
        let mut without = 0;
        let mut with = token_ids.len();
        while with - without > 1 {
            let middle = without.midpoint(with);
            if has_any(middle)? { with = middle } else { without = middle }
        }
        Ok(Some(with))
    }

    /// Tokens that were sampled, with the text and the log-probability of each.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub(crate) fn sampled_tokens(
        &self,
        token_ids: &[u32],
        log_probabilities: &[f32],
    ) -> Result<Vec<SampledToken>, RunError> {
        let token = |(&id, &log_probability): (&u32, &f32)| {
            Ok(SampledToken { id, text: self.tokenizer.decode_all(&[id])?, log_probability })
        };
        token_ids.iter().zip(log_probabilities).map(token).collect()
    }

    /// The tokens of a turn that says this.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub(super) fn said(&self, text: &str) -> Result<Vec<u32>, RunError> {
        let mut token_ids = self.tokenizer.encode(text)?;
        token_ids.push(self.renderer.end_of_turn());
        Ok(token_ids)
    }

    /// A turn of a demonstration, taken apart; from 1.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub(crate) fn read_demonstrated(&self, number: u32, text: &str) -> Result<Turn, RunError> {
        let token_ids = &self.said(text)?[..];
        Ok(self.read(SampledTurn { number, token_ids, is_ended: true, in_thinking: false, stop: &[] })?.1)
    }
}
