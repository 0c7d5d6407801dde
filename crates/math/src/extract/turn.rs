//! Where the model's own turn ends: behind it a completion may run on into turns of others.

use memchr::{memchr2_iter, memmem};

use crate::slicing::SafeSlice;

/// Tokens with which models end a text, where they are decoded with it.
const END_TOKENS: [&str; 11] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|return|>",
    "<end_of_turn>",
    "<eos>",
    "</s>",
    "<｜end▁of▁sentence｜>",
];
/// What begins a turn of a user.
const USERS: [&str; 6] =
    ["<|im_start|>user", "<|start_header_id|>user", "<start_of_turn>user", "<|user|>", "<｜User｜>", "[INST]"];

/// The text before a turn of a user.
pub(super) fn own(text: &str) -> &str {
    let user = memchr2_iter(b'<', b'[', text.as_bytes()).find(|at| {
        let rest = text.suffix_from(*at);
        USERS.iter().any(|user| rest.starts_with(user)) && !text.prefix_to(*at).trim().is_empty()
    });
    text.prefix_to(user.unwrap_or(text.len()))
}

/// The text before the first token that ends one.
pub(super) fn before_end_token(text: &str) -> &str {
    // `so <s>36</s>` is struck out; around a whole text these are the tokens of its beginning and end.
    let is_tag = |at: usize| {
        let before = text.prefix_to(at).trim_start();
        let is_last = text.suffix_from(at + "</s>".len()).trim_start().is_empty();
        let begun = before.strip_prefix("<s>").filter(|_| is_last).unwrap_or(before);
        memmem::find(begun.as_bytes(), b"<s>").is_some()
    };
    let end = memchr::memchr_iter(b'<', text.as_bytes()).find(|at| {
        let rest = text.suffix_from(*at);
        END_TOKENS.iter().any(|token| rest.starts_with(token)) && !(rest.starts_with("</s>") && is_tag(*at))
    });
    text.prefix_to(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_with_a_token_or_before_a_user() {
        for text in ["36<|im_end|>\n<|im_start|>assistant\n37", "36</s>", "36<eos><eos>"] {
            assert_eq!(before_end_token(text), "36", "{text}");
        }
        for text in ["<s>36</s> 37", "So <s>36</s>"] {
            assert_eq!(before_end_token(text), text);
        }
        assert_eq!(before_end_token("<s>36</s>"), "<s>36");
        for text in ["36 [INST] Next [/INST] 37", "36<|user|>37", "36<start_of_turn>user\n37"] {
            assert_eq!(own(text).trim(), "36", "{text}");
        }
        assert_eq!(own("<|im_start|>assistant\n36"), "<|im_start|>assistant\n36");
    }
}
