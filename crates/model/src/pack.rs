//! Packing: sequences one after another without padding, and which of their tokens are scored.

use std::ops::Range;

use crate::config::Config;
use crate::error::{ModelError, Result};
use crate::segment::{RowSpan, Segment};

/// A micro-batch: the input tokens of several sequences, concatenated. Attention stays within a sequence. Sequences
/// that begin with the same tokens may share the rows of these ([`Packed::push_shared`]).
///
/// A *scored* token is one whose log-probability is computed. It is predicted by the hidden state of the token before
/// it; tokens from a sequence's last scored one on are not part of the input, since nothing depends on them.
#[derive(Clone, Debug)]
pub struct Packed {
    ids: Vec<u32>,
    positions: Vec<u32>,
    segments: Vec<Segment>,
    rows: Vec<u32>,
    targets: Vec<u32>,
    scored: Vec<usize>,
    block: usize,
}

impl Default for Packed {
    fn default() -> Self {
        Self {
            ids: Vec::new(),
            positions: Vec::new(),
            segments: Vec::new(),
            rows: Vec::new(),
            targets: Vec::new(),
            scored: vec![0],
            block: 0,
        }
    }
}

impl Packed {
    /// Puts the micro-batch into a block of the batch, from 0: gradients are summed block by block
    /// ([`NetworkOptions::gradient_blocks`](crate::NetworkOptions::gradient_blocks)).
    #[must_use]
    pub fn in_block(self, block: usize) -> Self {
        Self { block, ..self }
    }

    /// The block of the batch that the micro-batch is part of.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Appends a sequence whose tokens at the ascending indices `scored` (each at least 1) are scored.
    ///
    /// # Errors
    /// An id outside the vocabulary, a sequence longer than the context, no scored token, or an index out of range or
    /// order; then nothing is appended.
    pub fn push(&mut self, config: &Config, ids: &[u32], scored: impl IntoIterator<Item = usize>) -> Result<()> {
        self.all_or_nothing(|packed| packed.append(config, RowSpan::default(), ids, scored))
    }

    /// Appends a sequence with a target of its own for each token: the row of token i predicts `targets[i]`, whatever
    /// follows it.
    ///
    /// # Errors
    /// An id outside the vocabulary, a sequence longer than the context or empty, or another number of targets; then
    /// nothing is appended.
    pub fn push_targets(&mut self, config: &Config, ids: &[u32], targets: &[u32]) -> Result<()> {
        validate_ids(config, ids)?;
        validate_ids(config, targets)?;
        if ids.is_empty() || targets.len() != ids.len() {
            let allowed = format!("{}, one for each token, and at least one", ids.len());
            return Err(ModelError::input("number of targets", targets.len(), allowed));
        }
        let rows = self.append_rows(ids, RowSpan::default());
        self.rows.extend((rows.first..rows.first + rows.length).map(|row| row as u32));
        self.targets.extend_from_slice(targets);
        self.scored.push(self.rows.len());
        Ok(())
    }

    /// Appends sequences that all begin with `prefix`, whose rows they share: each is given by its tokens after the
    /// prefix and by the ascending indices, in the whole sequence, of its scored tokens, which are after the prefix
    /// too.
    ///
    /// The rows of the prefix come first, then those of each continuation. Scores have the bits of sequences of their
    /// own; a gradient that reaches the prefix is the sum over the continuations in their order.
    ///
    /// # Errors
    /// As [`Packed::push`], and an empty prefix or no continuation; then nothing is appended.
    pub fn push_shared<'a, S: IntoIterator<Item = usize>>(
        &mut self,
        config: &Config,
        prefix: &[u32],
        continuations: impl IntoIterator<Item = (&'a [u32], S)>,
    ) -> Result<()> {
        let before = self.sequences();
        self.all_or_nothing(|packed| {
            if prefix.is_empty() {
                return Err(ModelError::input("tokens of a shared prefix", 0, "1 or more"));
            }
            validate_ids(config, prefix)?;
            let shared = packed.append_rows(prefix, RowSpan::default());
            for (ids, scored) in continuations {
                packed.append(config, shared, ids, scored)?;
            }
            if packed.sequences() > before {
                Ok(())
            } else {
                Err(ModelError::input("continuations of a prefix", 0, "1 or more"))
            }
        })
    }

    /// Takes back what was appended before an error.
    fn all_or_nothing(&mut self, append: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let lengths = (self.ids.len(), self.segments.len(), self.rows.len(), self.scored.len());
        append(self).inspect_err(|_| {
            let (ids, segments, rows, scored) = lengths;
            self.ids.truncate(ids);
            self.positions.truncate(ids);
            self.segments.truncate(segments);
            self.rows.truncate(rows);
            self.targets.truncate(rows);
            self.scored.truncate(scored);
        })
    }

    /// Appends the tokens after a prefix. On an error some of it may have been.
    fn append(
        &mut self,
        config: &Config,
        prefix: RowSpan,
        ids: &[u32],
        scored: impl IntoIterator<Item = usize>,
    ) -> Result<()> {
        validate_length(config, prefix.length + ids.len())?;
        validate_ids(config, ids)?;
        let first_row = self.ids.len();
        let first_scored = self.rows.len();
        let mut least = prefix.length.max(1);
        let end = prefix.length + ids.len();
        for index in scored {
            if index < least || index >= end {
                let allowed = format!("ascending indices from {least} to {}", end.saturating_sub(1));
                return Err(ModelError::input("scored token", index, allowed));
            }
            let row = match index.checked_sub(1 + prefix.length) {
                Some(after) => first_row + after,
                None => prefix.first + index - 1,
            };
            self.rows.push(row as u32);
            self.targets.push(ids[index - prefix.length]);
            least = index + 1;
        }
        if self.rows.len() == first_scored {
            return Err(ModelError::input("number of scored tokens", 0, "1 or more in each sequence"));
        }
        // `least` is one after the last scored token.
        self.append_rows(&ids[..least - 1 - prefix.length], prefix);
        self.scored.push(self.rows.len());
        Ok(())
    }

    fn append_rows(&mut self, ids: &[u32], prefix: RowSpan) -> RowSpan {
        let rows = RowSpan { first: self.ids.len(), length: ids.len() };
        self.ids.extend_from_slice(ids);
        self.positions.extend((prefix.length..prefix.length + ids.len()).map(|position| position as u32));
        self.segments.push(Segment { rows, prefix });
        rows
    }

    /// Input tokens of all sequences, (tokens).
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Each input token's position in its sequence, (tokens).
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// The rows of sequences, and of what several of them begin with, in the order of the rows.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The input row that predicts each scored token, (scored). The last row of a shared prefix may predict several.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// The ids of the scored tokens, (scored).
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// Which scored tokens belong to a sequence.
    pub fn scored(&self, sequence: usize) -> Range<usize> {
        self.scored[sequence]..self.scored[sequence + 1]
    }

    /// Number of packed sequences.
    pub fn sequences(&self) -> usize {
        self.scored.len() - 1
    }

    /// Whether there is no sequence.
    pub fn is_empty(&self) -> bool {
        self.sequences() == 0
    }
}

/// Checks that the ids are in the vocabulary, and no more than the context holds.
pub fn validate_ids(config: &Config, ids: &[u32]) -> Result<()> {
    validate_length(config, ids.len())?;
    match ids.iter().position(|&id| id as usize >= config.vocab_size) {
        Some(at) => {
            let allowed = format!("0 to vocab_size - 1 = {}", config.vocab_size - 1);
            Err(ModelError::input(format!("token id at index {at}"), ids[at], allowed))
        }
        None => Ok(()),
    }
}

fn validate_length(config: &Config, length: usize) -> Result<()> {
    if length > config.max_position_embeddings {
        let allowed = format!("at most max_position_embeddings = {}", config.max_position_embeddings);
        return Err(ModelError::input("sequence length", length, allowed));
    }
    Ok(())
}
