//! Answers after `####`, as in GSM8K. Headings of Markdown also begin with hashes and are no answers.

use memchr::memrchr_iter;

use super::{announcement, boxes, line};
use crate::slicing::SafeSlice;

/// Longest line that is searched for an answer within it.
const MAX_INLINE_BYTES: usize = 64;

/// The text after the last `####` that is no heading.
pub(super) fn after_hashes(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    for end in memrchr_iter(b'#', bytes) {
        // The end of a run of hashes; exactly four are needed.
        if bytes.get(end + 1) == Some(&b'#') || !text.prefix_to(end + 1).ends_with("####") {
            continue;
        }
        let Some(at) = end.checked_sub(3) else { continue };
        let before = text.prefix_to(at).trim_end_matches([' ', '\t']);
        let begins_line = before.is_empty() || before.ends_with('\n');
        let rest = text.suffix_from(end + 1);
        // Within a line only a few bytes are read: it may have many hashes.
        let near = rest.prefix_to(rest.floor_char_boundary(rest.len().min(MAX_INLINE_BYTES + 4)));
        let marked = line::first_line(if begins_line { rest } else { near });
        if !begins_line && (before.len() == at || !is_inline_answer(marked)) {
            continue;
        }
        if let Some(answer) = answer(rest, marked) {
            return Some(answer);
        }
    }
    None
}

/// The answer of a marked line, or of the text after a heading that announces it. `None` for other headings.
fn answer<'a>(rest: &'a str, marked: &'a str) -> Option<&'a str> {
    if let Some(boxed) = boxes::last_in(marked) {
        return Some(boxed).filter(|answer| !answer.trim().is_empty());
    }
    if let Some(announced) = announcement::at_start(rest) {
        return Some(announced).filter(|answer| !answer.trim().is_empty());
    }
    let followed = !rest.suffix_from(marked.len()).trim().is_empty();
    if is_heading(marked, followed) {
        return None;
    }
    let answer = line::statement(marked);
    (!answer.trim().is_empty()).then_some(answer)
}

/// `1. Setup`, and with more text below it also `2.` and `Verification`.
fn is_heading(marked: &str, followed: bool) -> bool {
    let marked = marked.trim().trim_matches(['*', '_']);
    let rest = marked.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = rest.len() < marked.len() && rest.starts_with(['.', ')', ':']);
    if is_numbered {
        let title = rest.suffix_from(1).trim_start_matches(['*', '_', ')']);
        return if title.trim().is_empty() {
            followed
        } else {
            title.starts_with(char::is_whitespace) && title.trim_start().starts_with(char::is_alphabetic)
        };
    }
    // `1 Introduction`, `(1)`
    let title = rest.trim_start_matches(' ');
    let is_titled = rest.len() < marked.len()
        && title.len() < rest.len()
        && title.starts_with(|c: char| c.is_ascii_uppercase())
        && title.chars().nth(1).is_some_and(char::is_lowercase);
    let is_label = marked.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).is_some_and(|label| {
        label.len() < 3 && !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    if followed && (is_titled || is_label) {
        return true;
    }
    let letters = rest.chars().take_while(|c| c.is_alphabetic()).count();
    followed && rest.len() == marked.len() && letters > 1
}

/// Whether what follows hashes within a line is an answer: short, and with a digit.
fn is_inline_answer(marked: &str) -> bool {
    marked.starts_with([' ', '\t', '$', '-'])
        && marked.len() <= MAX_INLINE_BYTES
        && marked
            .trim_start()
            .starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '$' | '\\' | '.' | '('))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_mark_an_answer() {
        assert_eq!(after_hashes("2+40=42\n#### 42\nand more"), Some("42"));
        assert_eq!(after_hashes("#### 1\n  #### 2"), Some("2"));
        assert_eq!(after_hashes("so it is #### 3"), Some("3"));
        assert_eq!(after_hashes("##### 3"), None);
        assert_eq!(after_hashes("#### 7\n####\n"), Some("7"));
        assert_eq!(after_hashes("#### $\\boxed{7}$ apples"), Some("7"));
        assert_eq!(after_hashes("#### 42."), Some("42."));
        assert_eq!(after_hashes("#### 2.5\nDone"), Some("2.5"));
        assert_eq!(after_hashes("#### Monday"), Some("Monday"));
    }

    #[test]
    fn headings_are_no_answers() {
        for text in [
            "#### 1. Setup\nLet x be it.",
            "#### 2.\nThen 42.",
            "#### 3)\nThen 42.",
            "#### **4. Check**\n42",
            "#### Verification\n40+2=42",
            "#### Step 3: add\n40+2=42",
            "#### 5: Result\nfine",
            "#### 1 Introduction\nfine",
            "#### (1)\nfine",
            "see a#### 3",
            "a heading #### of words",
        ] {
            assert_eq!(after_hashes(text), None, "{text}");
        }
        assert_eq!(after_hashes("#### 42\n\n#### Remarks\nnone"), Some("42"));
    }

    #[test]
    fn a_heading_may_announce_the_answer() {
        assert_eq!(after_hashes("#### Final Answer: 42"), Some("42"));
        assert_eq!(after_hashes("#### Answer\n$$42$$"), Some("42"));
        assert_eq!(after_hashes("#### **Final Answer**\n\n42"), Some("42"));
    }
}
