//! The sequences of a packed batch.

/// A sequence's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) first: usize,
    pub(super) length: usize,
}

/// Those that have any.
pub(super) fn sequences(starts: &[usize]) -> impl Iterator<Item = Rows> {
    let rows = starts.windows(2).map(|ends| Rows { first: ends[0], length: ends[1] - ends[0] });
    rows.filter(|rows| rows.length > 0)
}
