//! What makes two rows the same: their messages and what answers are judged against, as digests.

use std::fmt::{self, Display};
use std::hash::{Hash, Hasher};

use evenkeel_chat::Prompt;
use evenkeel_host::FieldsDigest;
use serde_json::Value;

/// SHA-256 of what a row asks, or of its gold answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest([u8; 32]);

/// What makes rows equal besides their prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowIdentity {
    /// Digest of further columns that decide what is asked and judged: rows that differ in it are different problems.
    pub(crate) context: Option<Digest>,
    /// Digest of what answers are judged against: rows that differ in it alone contradict each other.
    pub(crate) gold: Digest,
}

impl Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&evenkeel_host::hex(&self.0))
    }
}

impl Hash for Digest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The first bytes of a digest are as good a hash as any.
        state.write(&self.0[..8]);
    }
}

impl Digest {
    /// Digest of texts, each with its length, so that no two lists of texts are hashed the same way.
    pub(crate) fn of_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = FieldsDigest::new();
        for text in texts {
            hash.text(text);
        }
        Self(hash.finish())
    }

    /// Digest of this one and another one.
    pub(crate) fn with(self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        let mut hash = FieldsDigest::new();
        for digest in [self, other] {
            hash.text(&digest.to_string());
        }
        Self(hash.finish())
    }

    /// Digest of a prompt. A text counts as one user message with it; the order of keys, and keys without a value, do
    /// not count.
    pub(crate) fn of_prompt(prompt: &Prompt) -> Self {
        let mut hash = FieldsDigest::new();
        match prompt {
            Prompt::Text(text) => {
                hash.text("content").text("s").text(text).text("role").text("s").text("user").text("}");
            }
            Prompt::Messages(messages) | Prompt::Either { messages, .. } => {
                for message in messages {
                    add_object(&mut hash, message.fields());
                }
            }
        }
        Self(hash.finish())
    }
}

fn add_object<'h>(hash: &'h mut FieldsDigest, object: &serde_json::Map<String, Value>) -> &'h mut FieldsDigest {
    let mut pairs: Vec<_> = object.iter().filter(|(_, value)| !value.is_null()).collect();
    pairs.sort_unstable_by_key(|(name, _)| *name);
    for (name, value) in pairs {
        add_value(hash.text(name), value);
    }
    hash.text("}")
}

fn add_value(hash: &mut FieldsDigest, value: &Value) {
    match value {
        Value::Null => hash.text("null"),
        Value::Bool(truth) => hash.text(if *truth { "true" } else { "false" }),
        Value::Number(number) => hash.text("n").text(&number.to_string()),
        Value::String(text) => hash.text("s").text(text),
        Value::Array(values) => {
            hash.text("[");
            values.iter().for_each(|value| add_value(hash, value));
            hash.text("]")
        }
        Value::Object(object) => add_object(hash.text("{"), object),
    };
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
