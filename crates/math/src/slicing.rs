//! Slicing of text at byte offsets that never panics: an offset within a character is rounded down to its start, one
//! past the end to the end. Whatever offset a search returns, the text can be split there.

use std::ops::Range;

/// Text that can be sliced at any offset.
pub(crate) trait SafeSlice {
    /// The text before an offset.
    fn prefix_to(&self, at: usize) -> &str;
    /// The text from an offset on; with [`SafeSlice::prefix_to`] the whole text.
    fn suffix_from(&self, at: usize) -> &str;
    /// The text between two offsets; empty if they are out of order.
    fn slice(&self, range: Range<usize>) -> &str;
}

impl SafeSlice for str {
    fn prefix_to(&self, at: usize) -> &str {
        self.split_at_checked(self.floor_char_boundary(at)).map_or("", |(head, _)| head)
    }

    fn suffix_from(&self, at: usize) -> &str {
        self.split_at_checked(self.floor_char_boundary(at)).map_or("", |(_, tail)| tail)
    }

    fn slice(&self, range: Range<usize>) -> &str {
        let begin = self.floor_char_boundary(range.start);
        self.get(begin..self.floor_char_boundary(range.end)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_place_cuts_a_text_in_two() {
        for text in ["", "abc", "√2", "所以", "e\u{301}", "👨‍👩‍👧"] {
            for at in 0..text.len() + 3 {
                assert_eq!([text.prefix_to(at), text.suffix_from(at)].concat(), text, "{text} at {at}");
                for end in 0..text.len() + 3 {
                    let part = text.slice(at..end);
                    assert!(
                        text.suffix_from(at).starts_with(part) && part.len() <= end.saturating_sub(at) + 3,
                        "{text} {at} {end}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_place_within_a_character_is_where_it_begins() {
        assert_eq!(("√2".prefix_to(1), "√2".suffix_from(2)), ("", "√2"));
        assert_eq!(("√2".prefix_to(3), "√2".suffix_from(3)), ("√", "2"));
        assert_eq!("a√2".slice(1..4), "√");
        assert_eq!("a√2".slice(1..3), "");
        assert_eq!(("ab".prefix_to(9), "ab".suffix_from(9)), ("ab", ""));
    }
}
