//! Boxes that no reader sees: in a comment, or as code.

use std::ops::Range;

use memchr::memmem;

use crate::slicing::SafeSlice;

/// What begins and ends a comment.
const COMMENTS: [(&str, &str); 3] = [("<!--", "-->"), ("\\iffalse", "\\fi"), ("\\begin{comment}", "\\end{comment}")];

/// Whether a part of a text is in a comment of TeX or HTML, or printed as code by `\verb`.
pub(super) fn is_unseen(text: &str, part: &Range<usize>) -> bool {
    let before = text.prefix_to(part.start);
    let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
    let last = |mark: &str| memmem::rfind(before.as_bytes(), mark.as_bytes());
    // `\\iffalse` begins with no `\\fi`, but `\\fi` ends it only behind it.
    let is_open = |(open, close): &(&str, &str)| {
        last(open).is_some_and(|start| last(close).is_none_or(|end| end < start + open.len()))
    };
    let is_code = line.rfind("\\verb").is_some_and(|at| {
        let rest = line.suffix_from(at + "\\verb".len());
        rest.chars()
            .next()
            .is_some_and(|mark| !mark.is_alphanumeric() && !rest.suffix_from(mark.len_utf8()).contains(mark))
    });
    line.trim_start().starts_with('%') || is_code || COMMENTS.iter().any(is_open)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_box_unseen(text: &str) -> bool {
        let at = text.find("\\boxed").unwrap();
        is_unseen(text, &(at..text.len()))
    }

    #[test]
    fn comments_and_code_are_not_seen() {
        for text in [
            "% \\boxed{36}",
            "It is 37.\n  % \\boxed{36}",
            "<!-- \\boxed{36} -->",
            "\\iffalse \\boxed{36} \\fi",
            "\\begin{comment}\n\\boxed{36}\n\\end{comment}",
            "\\verb|\\boxed{36}|",
        ] {
            assert!(is_box_unseen(text), "{text}");
        }
        for text in [
            "\\boxed{36} % done",
            "50% of 72 is \\boxed{36}",
            "<!-- a --> \\boxed{36}",
            "\\iffalse a \\fi \\boxed{36}",
            "\\verb|a| \\boxed{36}",
        ] {
            assert!(!is_box_unseen(text), "{text}");
        }
    }
}
