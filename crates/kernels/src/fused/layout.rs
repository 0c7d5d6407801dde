//! The layout of the sequences of a pass.

use evenkeel_errors::FieldError;

use super::shape::FusedShape;

/// Lengths and offsets of the sequences of a pass, as the device reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FusedLayout {
    /// Tokens of each sequence of the shape.
    pub lengths: Vec<i32>,
    /// Offsets into queries, keys and logarithms.
    pub offsets: [Vec<i32>; 3],
}

impl FusedLayout {
    /// For sequences that begin at these rows and have this many rows; those of the shape after them are empty.
    ///
    /// # Errors
    /// More sequences or longer ones than the shape has room for, or rows that an i32 cannot count.
    pub fn new(shape: FusedShape, sequences: &[(usize, usize)]) -> Result<Self, FieldError> {
        let FusedShape { heads, kv_heads, dim, .. } = shape;
        if sequences.len() > shape.sequences {
            return Err(FieldError::new(
                "sequences of attention",
                sequences.len(),
                format!("up to {}", shape.sequences),
            ));
        }
        if let Some((_, length)) = sequences.iter().find(|(_, length)| *length > shape.longest) {
            return Err(FieldError::new("tokens of a sequence", *length, format!("up to {}", shape.longest)));
        }
        let end = sequences.last().map_or(0, |(first, length)| first + length);
        let most = i32::MAX as usize / (heads * dim).max(1);
        if end > most {
            return Err(FieldError::new("rows of attention", end, format!("up to {most}")));
        }
        let rows: Vec<usize> = sequences.iter().map(|(first, _)| *first).collect();
        let padded = |values: &mut dyn Iterator<Item = usize>, fill: usize, count: usize| -> Vec<i32> {
            // Checked above.
            values.chain(std::iter::repeat(fill)).take(count).map(|value| value as i32).collect()
        };
        let offsets = |width: usize| padded(&mut rows.iter().map(|row| row * width), end * width, shape.sequences + 1);
        Ok(Self {
            lengths: padded(&mut sequences.iter().map(|(_, length)| *length), 0, shape.sequences),
            offsets: [offsets(heads * dim), offsets(kv_heads * dim), offsets(heads)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: FusedShape = FusedShape { sequences: 3, longest: 300, heads: 4, kv_heads: 2, dim: 64 };

    #[test]
    fn missing_sequences_are_empty_and_follow_the_last() {
        let layout = FusedLayout::new(SHAPE.rounded_up(), &[(5, 2), (7, 300)]).unwrap();
        assert_eq!(layout.lengths, [2, 300, 0]);
        assert_eq!(layout.offsets[0], [5 * 256, 7 * 256, 307 * 256, 307 * 256]);
        assert_eq!(layout.offsets[1], [5 * 128, 7 * 128, 307 * 128, 307 * 128]);
        assert_eq!(layout.offsets[2], [5 * 4, 7 * 4, 307 * 4, 307 * 4]);
    }

    #[test]
    fn sequences_for_which_there_is_no_room_are_refused() {
        let error = |sequences: &[(usize, usize)]| FusedLayout::new(SHAPE, sequences).unwrap_err().to_string();
        assert_eq!(error(&[(0, 1); 4]), "sequences of attention is 4, allowed: up to 3");
        assert_eq!(error(&[(0, 301)]), "tokens of a sequence is 301, allowed: up to 300");
        assert_eq!(error(&[(9_000_000, 1)]), "rows of attention is 9000001, allowed: up to 8388607");
    }
}
