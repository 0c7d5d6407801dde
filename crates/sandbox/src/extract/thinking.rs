//! Reasoning models think between tags; only the text after them counts.

use std::ops::Range;

/// The tags that open and close thinking.
const TAGS: [(&str, &str); 6] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
];

/// The text after the last closing tag. `None` if a block after it is never closed: a completion that was cut off while
/// thinking has no answer, even if it contains a program. A tag in quotation marks is part of a program.
pub(super) fn tail(completion: &str) -> Option<&str> {
    let last = TAGS.iter().filter_map(|(_, close)| found(completion, close).last()).map(|tag| tag.end).max();
    let tail = &completion[last.unwrap_or(0)..];
    let unclosed = TAGS.iter().any(|(open, _)| found(tail, open).next().is_some());
    (!unclosed).then_some(tail)
}

/// Where a tag stands, without those in quotation marks.
fn found<'a>(text: &'a str, tag: &'a str) -> impl Iterator<Item = Range<usize>> {
    const QUOTES: [char; 3] = ['"', '\'', '`'];
    text.match_indices(tag)
        .map(|(at, tag)| at..at + tag.len())
        .filter(|tag| !(text[..tag.start].ends_with(QUOTES) && text[tag.end..].starts_with(QUOTES)))
}

#[cfg(test)]
mod tests {
    use super::tail;

    #[test]
    fn only_what_follows_the_thinking_counts() {
        assert_eq!(tail("plain"), Some("plain"));
        assert_eq!(tail("<think>a</think>b"), Some("b"));
        assert_eq!(tail("opened by the prompt</think>b"), Some("b"));
        assert_eq!(tail("<think>a</think>b<think>c</think>d"), Some("d"));
        assert_eq!(tail("<thinking>a</thinking>b"), Some("b"));
    }

    #[test]
    fn thinking_that_never_ends_has_no_answer() {
        assert_eq!(tail("<think>a"), None);
        assert_eq!(tail("<think>a</think>b<think>c"), None);
        assert_eq!(tail("[THINK]a"), None);
        assert_eq!(tail("<think>\"a\""), None);
    }

    #[test]
    fn a_tag_in_quotation_marks_is_part_of_a_program() {
        for text in ["x.split('</think>')[-1]", "print(\"<think>\")", "The tag `<think>` is text."] {
            assert_eq!(tail(text), Some(text));
        }
    }
}
