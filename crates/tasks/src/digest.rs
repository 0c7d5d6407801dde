//! What makes two rows the same: their messages and what answers are judged against, as digests.

use std::hash::{Hash, Hasher};

use evenkeel_chat::Prompt;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// SHA-256 of what a row asks, or of its gold answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest([u8; 32]);

impl Hash for Digest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Its first bytes are as good a hash as any.
        state.write(&self.0[..8]);
    }
}

impl Digest {
    /// Of texts, each with its length, so that no two lists of texts are hashed the same way.
    pub(crate) fn of_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        texts.into_iter().for_each(|text| add(&mut hash, text));
        Self(hash.finalize().into())
    }

    /// Of a prompt. A text is what one message of the user with it is; the order of keys, and keys without a value, do not count.
    pub(crate) fn of_prompt(prompt: &Prompt) -> Self {
        let mut hash = Sha256::new();
        match prompt {
            Prompt::Text(text) => {
                ["content", "s", text, "role", "s", "user", "}"].iter().for_each(|text| add(&mut hash, text))
            }
            Prompt::Messages(messages) | Prompt::Either { messages, .. } => {
                messages.iter().for_each(|message| add_object(&mut hash, message.fields()))
            }
        }
        Self(hash.finalize().into())
    }
}

fn add(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_le_bytes());
    hash.update(text.as_bytes());
}

fn add_object(hash: &mut Sha256, object: &serde_json::Map<String, Value>) {
    let mut pairs: Vec<_> = object.iter().filter(|(_, value)| !value.is_null()).collect();
    pairs.sort_unstable_by_key(|(name, _)| *name);
    for (name, value) in pairs {
        add(hash, name);
        add_value(hash, value);
    }
    add(hash, "}");
}

fn add_value(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Null => add(hash, "null"),
        Value::Bool(truth) => add(hash, if *truth { "true" } else { "false" }),
        Value::Number(number) => ["n", &number.to_string()].iter().for_each(|text| add(hash, text)),
        Value::String(text) => ["s", text].iter().for_each(|text| add(hash, text)),
        Value::Array(values) => {
            add(hash, "[");
            values.iter().for_each(|value| add_value(hash, value));
            add(hash, "]");
        }
        Value::Object(object) => {
            add(hash, "{");
            add_object(hash, object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(json: &str) -> Digest {
        Digest::of_prompt(&Prompt::new("prompt", serde_json::from_str(json).unwrap()).unwrap())
    }

    #[test]
    fn prompts_are_the_same_whatever_the_order_of_their_keys() {
        let text = digest("\"1+1?\"");
        assert_eq!(text, digest(r#"[{"role": "user", "content": "1+1?"}]"#));
        assert_eq!(text, digest(r#"[{"content": "1+1?", "name": null, "role": "user"}]"#));
        for other in [
            "\"1+1? \"",
            r#"[{"role": "user", "content": "1+1?", "name": "a"}]"#,
            r#"[{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": ""}]"#,
            r#"[{"role": "system", "content": "1+1?"}, {"role": "user", "content": "1+1?"}]"#,
            r#"[{"role": "user", "content": ["1+1?"]}]"#,
        ] {
            assert_ne!(text, digest(other), "{other}");
        }
    }

    #[test]
    fn lists_of_texts_differ_where_their_joined_texts_do_not() {
        assert_eq!(Digest::of_texts(["a", "bc"]), Digest::of_texts(["a", "bc"]));
        assert_ne!(Digest::of_texts(["a", "bc"]), Digest::of_texts(["ab", "c"]));
    }
}
