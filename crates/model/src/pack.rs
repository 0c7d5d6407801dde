//! Packing: sequences one after another without padding, and which of their tokens are scored.

use std::ops::Range;

use crate::config::Config;
use crate::error::{ModelError, Result};

/// A micro-batch: the input tokens of several sequences, concatenated. Attention stays within a sequence.
///
/// A *scored* token is one whose log-probability is computed. It is predicted by the hidden state of the token before it;
/// tokens from a sequence's last scored one on are not part of the input, since nothing depends on them.
#[derive(Clone, Debug)]
pub struct Packed {
    ids: Vec<u32>,
    positions: Vec<u32>,
    starts: Vec<usize>,
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
            starts: vec![0],
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
        validate_ids(config, ids)?;
        let (first_row, first_scored) = (self.ids.len(), self.rows.len());
        let mut last = 0;
        for index in scored {
            if index <= last || index >= ids.len() {
                self.rows.truncate(first_scored);
                self.targets.truncate(first_scored);
                let allowed = format!("ascending indices from {} to {}", last + 1, ids.len().saturating_sub(1));
                return Err(ModelError::input("scored token", index, allowed));
            }
            self.rows.push((first_row + index - 1) as u32);
            self.targets.push(ids[index]);
            last = index;
        }
        if last == 0 {
            return Err(ModelError::input("number of scored tokens", 0, "1 or more in each sequence"));
        }
        self.ids.extend_from_slice(&ids[..last]);
        self.positions.extend(0..last as u32);
        self.starts.push(self.ids.len());
        self.scored.push(self.rows.len());
        Ok(())
    }

    /// Input tokens of all sequences, (tokens).
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Each input token's position in its sequence, (tokens).
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// The first input token of each sequence, and the end of the last: (sequences + 1).
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The input row that predicts each scored token, (scored).
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

    /// Number of sequences.
    pub fn sequences(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there is no sequence.
    pub fn is_empty(&self) -> bool {
        self.sequences() == 0
    }
}

/// Checks that the ids are in the vocabulary.
pub fn validate_ids(config: &Config, ids: &[u32]) -> Result<()> {
    if ids.len() > config.max_position_embeddings {
        let allowed = format!("at most max_position_embeddings = {}", config.max_position_embeddings);
        return Err(ModelError::input("sequence length", ids.len(), allowed));
    }
    match ids.iter().position(|&id| id as usize >= config.vocab_size) {
        Some(at) => {
            let allowed = format!("0 to vocab_size - 1 = {}", config.vocab_size - 1);
            Err(ModelError::input(format!("token id at index {at}"), ids[at], allowed))
        }
        None => Ok(()),
    }
}
