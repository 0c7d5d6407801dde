//! Reasoning models think between tags; only the text after them counts.

use memchr::{memmem, memrchr_iter};

use super::NoAnswer;
use crate::Thinking;
use crate::slicing::SafeSlice;

/// The part of the text that may contain the answer.
pub(super) fn tail(text: &str, rule: Thinking) -> Result<&str, NoAnswer> {
    if rule == Thinking::Ignore {
        return Ok(text);
    }
    // The rarest byte of the tag: searching backwards for a byte is much faster than for the tag.
    let mut closings = memrchr_iter(b'>', text.as_bytes());
    let tail = match closings.find(|at| text.prefix_to(*at + 1).ends_with("</think>")) {
        Some(at) => text.suffix_from(at + 1),
        None => text,
    };
    // A completion cut off while thinking has no answer, even if it contains a box.
    match memmem::find(tail.as_bytes(), b"<think>") {
        Some(_) => Err(NoAnswer::UnclosedThinking),
        None => Ok(tail),
    }
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
    }
}
