//! Reasoning models think between tags; only the text after them counts.

use memchr::{memchr_iter, memrchr_iter};

use super::NoAnswer;
use crate::Thinking;
use crate::slicing::SafeSlice;

/// Tags that models think between.
const TAGS: [&str; 4] = ["think", "thinking", "thought", "reasoning"];

/// The part of the text that may contain the answer.
pub(super) fn tail(text: &str, rule: Thinking) -> Result<&str, NoAnswer> {
    if rule == Thinking::Ignore {
        return Ok(text);
    }
    // The rarest byte of the tag: searching backwards for a byte is much faster than for the tag.
    let mut closings = memrchr_iter(b'>', text.as_bytes());
    let closes = |at: usize| {
        let before = text.prefix_to(at);
        TAGS.iter().any(|tag| before.strip_suffix(tag).is_some_and(|before| before.ends_with("</")))
    };
    let tail = match closings.find(|at| closes(*at)) {
        Some(at) => text.suffix_from(at + 1),
        None => text,
    };
    // A completion cut off while thinking has no answer, even if it contains a box.
    let opens = |at: usize| {
        let name = tail.suffix_from(at + 1);
        TAGS.iter().any(|tag| name.strip_prefix(tag).is_some_and(|rest| rest.starts_with('>')))
    };
    if memchr_iter(b'<', tail.as_bytes()).any(opens) { Err(NoAnswer::UnclosedThinking) } else { Ok(tail) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_follows_the_thinking_counts() {
        assert_eq!(tail("<think>1</think>2</think>3", Thinking::Tail), Ok("3"));
        assert_eq!(tail("no tags", Thinking::Tail), Ok("no tags"));
        assert_eq!(tail("<think>\\boxed{1}", Thinking::Tail), Err(NoAnswer::UnclosedThinking));
        assert_eq!(tail("<think>a</think>b<think>c", Thinking::Tail), Err(NoAnswer::UnclosedThinking));
        assert_eq!(tail("<think>1", Thinking::Ignore), Ok("<think>1"));
        for tag in TAGS {
            assert_eq!(tail(&format!("<{tag}>1</{tag}>2"), Thinking::Tail), Ok("2"));
            assert_eq!(tail(&format!("<{tag}>1"), Thinking::Tail), Err(NoAnswer::UnclosedThinking));
        }
        assert_eq!(tail("<thread>1", Thinking::Tail), Ok("<thread>1"));
    }
}
