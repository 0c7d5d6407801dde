//! Tags around an answer: only those of answers and of formatting leave it one.

use memchr::memrchr_iter;

use crate::slicing::SafeSlice;
use crate::words;

/// Names of tags that hold an answer or format it.
const HARMLESS: &str = "answer final_answer finalanswer final ans solution response result conclusion summary assistant reply \
    box boxed text math latex markdown html body main article section header footer div span p br hr b i u em strong mark \
    font big small sub sup center h1 h2 h3 h4 h5 h6 table thead tbody tr td th ul ol li dl dt dd tt kbd s del strike ins";
/// Longest name.
const MAX_NAME: usize = 24;
/// Most tags before an answer that are read.
const MAX_TAGS: usize = 64;

/// Whether a tag that is none of these encloses the text at a position, or begins a line before it and is never closed.
pub(super) fn encloses(text: &str, at: usize) -> bool {
    let before = text.prefix_to(at);
    let mut closed: Vec<&str> = Vec::new();
    for start in
        memrchr_iter(b'<', before.as_bytes()).filter(|start| name(text.suffix_from(start + 1)).is_some()).take(MAX_TAGS)
    {
        let Some((name, closes)) = name(text.suffix_from(start + 1)) else { continue };
        if closes {
            closed.push(name);
        } else if let Some(pair) = closed.iter().rposition(|found| found.eq_ignore_ascii_case(name)) {
            closed.truncate(pair);
        } else if !is_harmless(name) && (begins_line(text.prefix_to(start)) || is_closed(text.suffix_from(at), name)) {
            return true;
        }
    }
    false
}

/// The name of a tag after its bracket, and whether it closes.
fn name(text: &str) -> Option<(&str, bool)> {
    let rest = text.strip_prefix('/').unwrap_or(text);
    let near = rest.prefix_to(rest.floor_char_boundary(rest.len().min(MAX_NAME + 1)));
    let (name, _) = near.split_once('>')?;
    let is_name = name.len() > 1
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.starts_with(|c: char| c.is_ascii_alphabetic());
    is_name.then_some((name, rest.len() < text.len()))
}

fn is_harmless(name: &str) -> bool {
    words::in_lower_case(name, |name| HARMLESS.split_whitespace().any(|listed| listed == name))
}

fn begins_line(before: &str) -> bool {
    let before = before.trim_end_matches([' ', '\t']);
    before.is_empty() || before.ends_with(['\n', '>'])
}

fn is_closed(rest: &str, wanted: &str) -> bool {
    memchr::memmem::find_iter(rest.as_bytes(), b"</")
        .take(MAX_TAGS)
        .any(|at| name(rest.suffix_from(at + 1)).is_some_and(|(name, _)| name.eq_ignore_ascii_case(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_enclosed(text: &str) -> bool {
        encloses(text, text.find("36").unwrap())
    }

    #[test]
    fn only_tags_of_answers_and_of_formatting_leave_an_answer_one() {
        for text in [
            "<plan>It is 36.</plan> I cannot say.",
            "<draft>\n36",
            "So <quote>36</quote>",
            "<answer><wrong>36</wrong></answer>",
            "<details><summary>Thinking</summary>36</details>",
        ] {
            assert!(is_enclosed(text), "{text}");
        }
        for text in [
            "<answer>36</answer>",
            "<plan>a</plan> 36",
            "<div><b>36</b></div>",
            "<explanation>a</explanation>\n<Answer>36</Answer>",
            "write it as <number>, so 36",
            "a <b and c> 36",
            "x<y> 36",
        ] {
            assert!(!is_enclosed(text), "{text}");
        }
    }
}
