//! A prompt with a response, as the model takes it.

use evenkeel_model::Config;

use crate::error::{LearnerError, Result};
use crate::tokens::{validate_ids, validate_length};

/// A sequence for the model: its token ids and the positions of the tokens to score.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    ids: Vec<u32>,
    scored: Vec<usize>,
    /// How many of its first tokens may be computed once for it and others that begin with them.
    prompt: usize,
    /// What each token predicts, if not the token after it; all are scored then.
    targets: Option<Vec<u32>>,
    /// Further sequences of the same response, each with its positions to score. They have their own rows, and their
    /// scores follow.
    others: Vec<(Vec<u32>, Vec<usize>)>,
}

impl Sequence {
    /// `scored`: positions in `ids` after the first `prompt` ones, from 1, ascending. The prompt may be computed once
    /// for all sequences that begin with it.
    pub(crate) fn new(ids: Vec<u32>, prompt: usize, scored: Vec<usize>) -> Self {
        Self { ids, scored, prompt, targets: None, others: Vec::new() }
    }

    /// Adds further sequences of the response. Those without a token to score are left out. With any,
    /// no rows are shared with other responses.
    pub(crate) fn with_others(self, others: impl Iterator<Item = (Vec<u32>, Vec<usize>)>) -> Self {
        let mut others: Vec<_> = others.filter(|(_, scored)| !scored.is_empty()).collect();
        if others.is_empty() {
            return self;
        }
        if self.scored.is_empty() {
            let (ids, scored) = others.remove(0);
            return Self { ids, scored, others, ..self }.alone();
        }
        Self { others, ..self }.alone()
    }

    /// A sequence with a target of its own for each token, computed with rows of its own only. `path` is that of the
    /// sequence in errors.
    ///
    /// # Errors
    /// Without tokens, an id outside the vocabulary, longer than the context, another number of targets.
    pub(crate) fn with_targets(config: &Config, path: &str, ids: &[u32], targets: &[u32]) -> Result<Self> {
        for (field, ids) in [("tokens", ids), ("targets", targets)] {
            validate_ids(config, &format!("{path}.{field}"), ids).map_err(LearnerError::Input)?;
        }
        validate_length(config, path, ids.len(), "").map_err(LearnerError::Input)?;
        if targets.len() != ids.len() {
            let allowed = format!("a list of {}, one for each token", ids.len());
            return Err(LearnerError::input(
                format!("{path}.targets"),
                format_args!("a list of {}", targets.len()),
                allowed,
            ));
        }
        let ids = ids.to_vec();
        let targets = Some(targets.to_vec());
        Ok(Self { ids, scored: Vec::new(), prompt: 0, targets, others: Vec::new() })
    }

    /// What each token predicts, if not the token after it.
    pub(crate) fn targets(&self) -> Option<&[u32]> {
        self.targets.as_deref()
    }

    /// A prompt with a response whose tokens are all scored. `path` is that of the pair in errors.
    ///
    /// # Errors
    /// An empty prompt or response, an id outside the vocabulary, a sequence longer than the context.
    pub(crate) fn of_pair(config: &Config, path: &str, prompt: &[u32], response: &[u32]) -> Result<Self> {
        for (field, ids) in [("prompt", prompt), ("response", response)] {
            validate_ids(config, &format!("{path}.{field}"), ids).map_err(LearnerError::Input)?;
        }
        let ids = [prompt, response].concat();
        validate_length(config, path, ids.len(), "").map_err(LearnerError::Input)?;
        let scored = (prompt.len()..ids.len()).collect();
        Ok(Self::new(ids, prompt.len(), scored))
    }

    /// Computes the sequence with rows of its own only.
    pub(crate) fn alone(self) -> Self {
        Self { prompt: 0, ..self }
    }

    /// The tokens that may be computed once for several sequences.
    pub(crate) fn prompt(&self) -> &[u32] {
        &self.ids[..self.prompt]
    }

    /// The tokens after the prompt.
    pub(crate) fn own(&self) -> &[u32] {
        &self.ids[self.prompt..]
    }

    /// Tokens after the prompt, and all of further sequences.
    pub(crate) fn own_rows(&self) -> usize {
        self.own().len() + self.others.iter().map(|(ids, _)| ids.len()).sum::<usize>()
    }

    /// Further sequences of the same response.
    pub(crate) fn others(&self) -> &[(Vec<u32>, Vec<usize>)] {
        &self.others
    }

    /// The ids, those of the prompt first.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Positions in the ids of the tokens to score.
    pub(crate) fn scored(&self) -> &[usize] {
        &self.scored
    }
}
