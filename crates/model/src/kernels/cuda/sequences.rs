//! The sequences of a packed batch.

use crate::error::{ModelError, Result};
use crate::segment::{RowSpan, Segment};

/// The first row of each sequence, and the end of the last.
///
/// # Errors
/// Segments that share a prefix, for which there are no kernels.
pub(super) fn starts(segments: &[Segment]) -> Result<Vec<usize>> {
    if let Some(segment) = segments.iter().find(|segment| segment.prefix.length > 0) {
        let found = format!("{} rows", segment.prefix.length);
        return Err(ModelError::input("shared prefix", found, "none on a GPU: each sequence with its own"));
    }
    Ok([0].into_iter().chain(segments.iter().map(|segment| segment.rows.first + segment.rows.length)).collect())
}

/// The rows of each sequence that has any.
pub(super) fn sequences(starts: &[usize]) -> impl Iterator<Item = RowSpan> {
    let rows = starts.windows(2).map(|ends| RowSpan { first: ends[0], length: ends[1] - ends[0] });
    rows.filter(|rows| rows.length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_prefix_is_refused() {
        let shared = [
            Segment::whole(0, 5),
            Segment { rows: RowSpan { first: 5, length: 2 }, prefix: RowSpan { first: 0, length: 5 } },
        ];
        let error = starts(&shared).unwrap_err().to_string();
        assert_eq!(error, "shared prefix is 5 rows, allowed: none on a GPU: each sequence with its own");
        assert_eq!(starts(&Segment::whole_sequences(&[0, 3, 3, 9])).unwrap(), [0, 3, 3, 9]);
    }
}
