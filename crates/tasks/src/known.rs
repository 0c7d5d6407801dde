//! What is remembered of rows, so that later ones can be merged with them.

use crate::RowError;
use crate::digest::Digest;

/// What is known about the rows of one prompt.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) first: Variant,
    /// With other gold answers.
    pub(crate) others: Vec<Variant>,
}

/// The rows of one prompt and one gold answer.
#[derive(Debug, Clone)]
pub(crate) struct Variant {
    pub(crate) gold: Digest,
    pub(crate) outcome: Outcome,
}

/// What became of the first row of its kind.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// It is the problem at this index, or was until another row contradicted it.
    Problem(usize),
    /// It contradicted an earlier row.
    Contradiction,
    /// Its gold answer cannot be read.
    Unreadable(RowError),
}

impl Known {
    /// All of them.
    pub(crate) fn variants(&self) -> impl Iterator<Item = &Variant> {
        std::iter::once(&self.first).chain(&self.others)
    }
}
