//! Where the thinking of a completion ends.
//!
//! Reasoning models think before they answer, between tags or in a channel of its own. What stands there is no answer,
//! neither of mathematics nor a program. [`answer`] gives the text after it.
//!
//! ```
//! use evenkeel_thinking::answer;
//!
//! assert_eq!(answer("<think>3?</think>It is 4."), Some("It is 4."));
//! assert_eq!(answer("[THINK]It may be 3"), None);
//! ```
#![warn(missing_docs)]
#![forbid(unsafe_code)]

use memchr::{memchr3, memchr3_iter, memmem};

/// Names of tags that models think between, in lower case: `<think>`, `[THINK]`, `◁think▷`, in any case.
pub const TAGS: [&str; 10] = [
    "think",
    "thinking",
    "thought",
    "thoughts",
    "reasoning",
    "analysis",
    "reflection",
    "scratchpad",
    "seed:think",
    "inner_thoughts",
];
/// Special tokens that open and close thinking.
pub const TOKENS: [(&str, &str); 2] =
    [("<|begin_of_thought|>", "<|end_of_thought|>"), ("<|START_THINKING|>", "<|END_THINKING|>")];
/// The channels of gpt-oss: only what is in the final one is an answer.
const CHANNEL: &str = "<|channel|>";
const FINAL: &str = "<|channel|>final<|message|>";
/// The same where a decoder left out the special tokens.
const BARE_THINKING: &str = "analysis";
const BARE_FINAL: &str = "assistantfinal";

/// Brackets around the name of a tag, and their lengths in bytes.
const BRACKETS: [(&str, char); 3] = [("<", '>'), ("[", ']'), ("◁", '▷')];
/// What stands on both sides of a tag that is quoted, as in a program: it opens and closes nothing.
const QUOTES: [char; 3] = ['"', '\'', '`'];

/// The text after the thinking: after the last closing tag, or the whole text without any. `None` where thinking that
/// follows was never closed: a completion that was cut off while thinking has no answer.
pub fn answer(completion: &str) -> Option<&str> {
    let may_have_tags = memchr3(b'<', b'[', "◁".as_bytes()[0], completion.as_bytes()).is_some();
    if may_have_tags && memmem::find(completion.as_bytes(), CHANNEL.as_bytes()).is_some() {
        let at = memmem::rfind(completion.as_bytes(), FINAL.as_bytes())? + FINAL.len();
        return completion.get(at..);
    }
    if let Some(rest) = completion.trim_start().strip_prefix(BARE_THINKING)
        && rest.starts_with(char::is_alphanumeric)
    {
        let at = memmem::rfind(rest.as_bytes(), BARE_FINAL.as_bytes())? + BARE_FINAL.len();
        return rest.get(at..);
    }
    if !may_have_tags {
        return Some(completion);
    }
    let mut after = 0;
    let mut is_open = false;
    // The first byte of the third bracket begins other characters as well.
    for at in memchr3_iter(b'<', b'[', "◁".as_bytes()[0], completion.as_bytes()) {
        let Some(rest) = completion.get(at..) else { continue };
        let Some(Tag { closes, length }) = tag(rest) else { continue };
        let is_quoted = completion.get(..at).is_some_and(|before| before.ends_with(QUOTES))
            && rest.get(length..).is_some_and(|after| after.starts_with(QUOTES));
        if is_quoted {
            continue;
        }
        is_open = !closes;
        if closes {
            after = at + length;
        }
    }
    if is_open { None } else { completion.get(after..) }
}

/// A tag at the start of a text.
struct Tag {
    closes: bool,
    length: usize,
}

fn tag(text: &str) -> Option<Tag> {
    for (open, close) in TOKENS {
        for (token, closes) in [(open, false), (close, true)] {
            if text.starts_with(token) {
                return Some(Tag { closes, length: token.len() });
            }
        }
    }
    let (open, end) = BRACKETS.iter().find(|(open, _)| text.starts_with(open))?;
    let inner = text.get(open.len()..)?;
    let name = inner.strip_prefix('/').unwrap_or(inner);
    let letters = name.find(|c: char| !c.is_ascii_alphabetic() && !matches!(c, ':' | '_')).unwrap_or(name.len());
    let after = name.get(letters..)?.trim_start_matches([' ', '\t']);
    let rest = after.strip_prefix(*end)?;
    let word = name.get(..letters)?;
    // Square brackets stand around many words.
    let known = if *open == "[" { &TAGS[..2] } else { &TAGS[..] };
    known
        .iter()
        .any(|tag| word.eq_ignore_ascii_case(tag))
        .then_some(Tag { closes: name.len() < inner.len(), length: text.len() - rest.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_follows_the_thinking_counts() {
        for name in TAGS {
            for (open, close) in [('<', '>'), ('◁', '▷')] {
                let upper = name.to_uppercase();
                for name in [name, &upper, &format!("{name} ")] {
                    let text = format!("{open}{name}{close}a{open}/{name}{close}b");
                    assert_eq!(answer(&text), Some("b"), "{text}");
                }
            }
        }
        for text in [
            "b",
            "opened by the prompt</think>b",
            "[THINK]a[/THINK]b",
            "<|begin_of_thought|>a<|end_of_thought|>b",
            "<think>a</think>c<think>d</think>b",
            "<think>The </think> tag ends it.</think>b",
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
            "analysisWe think.assistantfinalb",
        ] {
            assert_eq!(answer(text), Some("b"), "{text}");
        }
    }

    #[test]
    fn thinking_that_never_ends_has_no_answer() {
        for text in [
            "<think>a",
            "[THINK]a",
            "◁think▷a",
            "<Thoughts >a",
            "<think>a</think>b<think>c",
            "<think>\"a\"",
            "<|begin_of_thought|>a",
            "<|channel|>analysis<|message|>a",
            "analysisWe think.",
        ] {
            assert_eq!(answer(text), None, "{text}");
        }
    }

    #[test]
    fn other_tags_and_quoted_ones_are_text() {
        for text in [
            "<thread>1",
            "x.split('</think>')[-1]",
            "print(\"<think>\")",
            "The tag `<think>` is text.",
            "[1, 2]",
            "analysis shows 4",
            "Analysis: 4",
            "[reasoning] 4",
            "x < think > y",
        ] {
            assert_eq!(answer(text), Some(text), "{text}");
        }
    }
}
