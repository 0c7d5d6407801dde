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
/// Parts of other names of such tags, in lower case: `<longcat_think>`, `<internal_thoughts>`, `<self_reflection>`.
const PARTS: [&str; 6] = ["think", "thought", "reason", "reflect", "scratch", "monologue"];
/// Other names.
const OTHERS: [&str; 2] = ["cot", "rationale"];
/// Switches of thinking, which open none.
const SWITCHES: [&str; 2] = ["no_think", "nothink"];
/// Longest tag, with its attributes.
const MAX_TAG_BYTES: usize = 256;
/// What begins and ends a message of a chat; one of the role `think` is thinking.
const MESSAGE: (&str, &str) = ("<|im_start|>", "<|im_end|>");
/// Special tokens that open and close thinking.
pub const TOKENS: [(&str, &str); 5] = [
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("[BEGIN THINKING]", "[END THINKING]"),
    ("<unused94>thought", "<unused95>"),
    ("<｜begin▁of▁thought｜>", "<｜end▁of▁thought｜>"),
];
/// Other marks between which a completion may begin with thinking, such as those of Granite.
const BEGINNINGS: [(&str, &str); 5] = [
    ("Here is my thought process:", "Here is my response:"),
    ("```thinking\n", "\n```"),
    ("```think\n", "\n```"),
    ("{think}", "{/think}"),
    ("&lt;think&gt;", "&lt;/think&gt;"),
];
/// The channels of gpt-oss: only what is in the final one is an answer.
const CHANNEL: &str = "<|channel|>";
const FINAL: &str = "<|channel|>final<|message|>";
/// What ends a channel.
const FINAL_ENDS: [&str; 3] = [CHANNEL, "<|end|>", "<|start|>"];
/// The channels of gpt-oss where a decoder left out the special tokens.
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
        let last = completion.get(at..)?;
        // What follows the channel is another one.
        let end = FINAL_ENDS.iter().filter_map(|end| memmem::find(last.as_bytes(), end.as_bytes())).min();
        return last.get(..end.unwrap_or(last.len()));
    }
    if let Some(rest) = completion.trim_start().strip_prefix(BARE_THINKING)
        && rest.starts_with(char::is_alphanumeric)
    {
        let at = memmem::rfind(rest.as_bytes(), BARE_FINAL.as_bytes())? + BARE_FINAL.len();
        return rest.get(at..);
    }
    let begun = |(begin, end): &(&str, &'static str)| Some((completion.trim_start().strip_prefix(begin)?, *end));
    if let Some((rest, end)) = BEGINNINGS.iter().find_map(begun) {
        let at = memmem::find(rest.as_bytes(), end.as_bytes())? + end.len();
        return answer(rest.get(at..)?);
    }
    if !may_have_tags {
        return Some(completion);
    }
    let mut after = 0;
    let mut is_open = false;
    let mut is_message = false;
    // The first byte of the third bracket begins other characters as well.
    for at in memchr3_iter(b'<', b'[', "◁".as_bytes()[0], completion.as_bytes()) {
        let (Some(before), Some(rest)) = (completion.get(..at), completion.get(at..)) else { continue };
        let Some(Tag { closes, length }) = message(rest, is_message).or_else(|| tag(before, rest)) else { continue };
        let is_quoted = before.ends_with(QUOTES) && rest.get(length..).is_some_and(|after| after.starts_with(QUOTES));
        if is_quoted {
            continue;
        }
        is_open = !closes;
        is_message = is_open && rest.starts_with(MESSAGE.0);
        if closes {
            after = at + length;
        }
    }
    if is_open { None } else { completion.get(after..) }
}

/// The beginning of a message that is thinking, or the end of it.
fn message(text: &str, is_message: bool) -> Option<Tag> {
    let (begin, end) = MESSAGE;
    if is_message && text.starts_with(end) {
        return Some(Tag { closes: true, length: end.len() });
    }
    let role = text.strip_prefix(begin)?;
    let letters = role.find(|c: char| !c.is_ascii_alphabetic() && c != '_').unwrap_or(role.len());
    if is_thinking(role.get(..letters)?) {
        return Some(Tag { closes: false, length: begin.len() + letters });
    }
    is_message.then_some(Tag { closes: true, length: begin.len() })
}

/// A tag at the start of a text.
struct Tag {
    closes: bool,
    length: usize,
}

fn tag(before: &str, text: &str) -> Option<Tag> {
    for (open, close) in TOKENS {
        for (token, closes) in [(open, false), (close, true)] {
            if text.starts_with(token) {
                return Some(Tag { closes, length: token.len() });
            }
        }
    }
    if let Some(name) = text.strip_prefix("<|") {
        return token(name);
    }
    let (open, end) = BRACKETS.iter().find(|(open, _)| text.starts_with(open))?;
    let inner = text.get(open.len()..)?;
    let begins_line = || {
        let line = before.trim_end_matches([' ', '\t', '\r']);
        line.is_empty() || line.ends_with('\n')
    };
    let unspaced = inner.trim_start_matches([' ', '\t']);
    let name = unspaced.strip_prefix('/').map_or(unspaced, str::trim_start);
    let closes = name.len() < unspaced.len();
    let letters = name.find(|c: char| !c.is_ascii_alphabetic() && !matches!(c, ':' | '_' | '-')).unwrap_or(name.len());
    let word = name.get(..letters)?;
    if !is_thinking(word) {
        return None;
    }
    let rest = name.get(letters..)?;
    // `x < think > y` is no tag, `< think>` is one.
    if unspaced.len() < inner.len() && !rest.starts_with(*end) && !begins_line() {
        return None;
    }
    let is_listed = |tags: &[&str]| tags.iter().any(|tag| word.eq_ignore_ascii_case(tag));
    // Square brackets stand around many words.
    if *open == "[" && !is_listed(&TAGS[..2]) && !closes && (word.contains(char::is_lowercase) || !begins_line()) {
        return None;
    }
    // `Vec<Thought>`, `list<reason>`
    let is_type = *open == "<" && before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, ':' | '_'));
    if is_type && !closes && !is_listed(&TAGS) {
        return None;
    }
    let length = |rest: &str| text.len() - rest.len();
    if let Some(rest) = rest.trim_start().strip_prefix(*end) {
        return Some(Tag { closes, length: length(rest) });
    }
    // Attributes.
    if *open != "<" || !rest.starts_with(char::is_whitespace) || is_listed(&["cot"]) {
        return None;
    }
    let near = rest.char_indices().take_while(|(at, _)| *at < MAX_TAG_BYTES);
    let mut marks = near.filter(|(_, c)| matches!(c, '<' | '>'));
    let (end, _) = marks.next().filter(|(_, c)| *c == '>')?;
    let attributes = rest.get(..end)?;
    // `a <reason && b > c`, and `<think />`, which opens nothing.
    let is_program = attributes.contains(['&', '|', ';', '(', '+', '{']) || attributes.ends_with('/');
    (!is_program).then(|| Tag { closes, length: length(rest) + end + 1 })
}

/// `<|think|>`, `<|/think|>`, `<|end_of_thinking|>`, after their beginning.
fn token(text: &str) -> Option<Tag> {
    let name = text.strip_prefix('/').unwrap_or(text);
    let letters = name.find(|c: char| !c.is_ascii_alphabetic() && c != '_').unwrap_or(name.len());
    let rest = name.get(letters..)?.strip_prefix("|>")?;
    let word = name.get(..letters)?;
    let closes = name.len() < text.len() || ends(word);
    is_thinking(word).then(|| Tag { closes, length: "<|".len() + text.len() - rest.len() })
}

/// Whether a name says that something ends: `end_of_thought`, `think_off`.
fn ends(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["end", "close", "stop"].iter().any(|word| lower.starts_with(word)) || lower.ends_with("_end")
}

/// Whether a name is one of thinking.
fn is_thinking(name: &str) -> bool {
    const MAX_NAME_BYTES: usize = 40;
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return false;
    }
    let lower = name.to_ascii_lowercase();
    let is_listed = TAGS.contains(&&*lower) || OTHERS.contains(&&*lower);
    is_listed || (PARTS.iter().any(|part| lower.contains(part)) && !SWITCHES.iter().any(|word| lower.contains(word)))
}

#[cfg(test)]
mod tests;
