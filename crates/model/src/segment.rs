//! Runs of rows of a packed batch, and what each of them continues.

/// Consecutive rows of a packed batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowSpan {
    /// Index of the first row.
    pub first: usize,
    /// Number of consecutive rows.
    pub length: usize,
}

/// RowSpan that attend to each other, each to those up to itself, and before them to all rows of a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The rows; there may be none.
    pub rows: RowSpan,
    /// The rows of the segment that this one continues, which comes before it and has no prefix itself; none for a
    /// sequence of its own.
    pub prefix: RowSpan,
}

impl Segment {
    /// A sequence of its own.
    pub const fn whole(first: usize, length: usize) -> Self {
        Self { rows: RowSpan { first, length }, prefix: RowSpan { first: 0, length: 0 } }
    }

    /// Sequences of their own, one after the other: `starts` has the first row of each, and the end of the last.
    pub fn whole_sequences(starts: &[usize]) -> Vec<Self> {
        starts.windows(2).map(|ends| Self::whole(ends[0], ends[1] - ends[0])).collect()
    }

    /// Keys that the last row sees.
    pub const fn keys(&self) -> usize {
        self.prefix.length + self.rows.length
    }
}
