//! Cuts of a text at places that are counted in bytes. No place is wrong: one within a character stands for where the character begins,
//! one behind the end for the end. So whatever a search comes up with, there is a text before it and a text behind it.

use std::ops::Range;

/// Texts that can be cut anywhere.
pub(crate) trait Cut {
    /// What stands before a place.
    fn head(&self, at: usize) -> &str;
    /// What stands behind it: with the head the whole text.
    fn tail(&self, at: usize) -> &str;
    /// What stands between two places; nothing where they are out of order.
    fn part(&self, range: Range<usize>) -> &str;
}

impl Cut for str {
    fn head(&self, at: usize) -> &str {
        self.split_at_checked(self.floor_char_boundary(at)).map_or("", |(head, _)| head)
    }

    fn tail(&self, at: usize) -> &str {
        self.split_at_checked(self.floor_char_boundary(at)).map_or("", |(_, tail)| tail)
    }

    fn part(&self, range: Range<usize>) -> &str {
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
                assert_eq!([text.head(at), text.tail(at)].concat(), text, "{text} at {at}");
                for end in 0..text.len() + 3 {
                    let part = text.part(at..end);
                    assert!(
                        text.tail(at).starts_with(part) && part.len() <= end.saturating_sub(at) + 3,
                        "{text} {at} {end}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_place_within_a_character_is_where_it_begins() {
        assert_eq!(("√2".head(1), "√2".tail(2)), ("", "√2"));
        assert_eq!(("√2".head(3), "√2".tail(3)), ("√", "2"));
        assert_eq!("a√2".part(1..4), "√");
        assert_eq!("a√2".part(1..3), "");
        assert_eq!(("ab".head(9), "ab".tail(9)), ("ab", ""));
    }
}
