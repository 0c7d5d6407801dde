//! Models whose head is the embedding, and copies of them in which the head is written out.
//!
//! Some engines load such a model once and cannot reload its head: the file has no tensor for it. A copy with
//! `lm_head.weight` and `tie_word_embeddings: false` is loaded and reloaded whole. It is the same model, and must stay
//! it in training: its `config.json` says so ([`WRITTEN_OUT`]).

use serde_json::{Value, json};

/// Name of the embedding's tensor.
pub const EMBEDDING: &str = "model.embed_tokens.weight";
/// Name of the head's tensor.
pub const HEAD: &str = "lm_head.weight";
/// The field of `config.json` that says that the head is a copy of the embedding, although they are not tied.
pub const WRITTEN_OUT: &str = "tied_head_written_out";

const TIE: &str = "tie_word_embeddings";

/// How a folder has the head of its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadForm {
    /// A matrix apart from the embedding: an untied model.
    Own,
    Tied,
    /// The embedding, written out as a second tensor.
    WrittenOut,
}

impl HeadForm {
    /// Reads a parsed `config.json`. Without the field, a model of the supported families counts as untied, except
    /// SmolLM3.
    pub fn of(config: &Value) -> Self {
        let flag = |field| config.get(field).and_then(Value::as_bool);
        match (flag(TIE).unwrap_or_else(|| is_tied_by_default(config)), flag(WRITTEN_OUT) == Some(true)) {
            (true, _) => Self::Tied,
            (false, true) => Self::WrittenOut,
            (false, false) => Self::Own,
        }
    }

    /// Whether head and embedding are one tensor of the model, whatever the files have.
    pub fn is_tied(self) -> bool {
        self != Self::Own
    }
}

/// Whether transformers ties the head by default.
fn is_tied_by_default(config: &Value) -> bool {
    match config.get("architectures").and_then(|names| names.get(0)) {
        Some(class) => class == "SmolLM3ForCausalLM",
        None => config.get("model_type").is_some_and(|kind| kind == "smollm3"),
    }
}

/// The `config.json` of a tied model, for a folder in which its head is written out.
#[must_use]
pub fn with_head_written_out(mut config: Value) -> Value {
    config[TIE] = json!(false);
    config[WRITTEN_OUT] = json!(true);
    config
}

/// The `config.json` of the model itself: that of its source, for a folder in which a tied head is written out. What
/// identifies a model is this configuration and its tensors without the written-out head.
#[must_use]
pub fn with_head_tied(mut config: Value) -> Value {
    if HeadForm::of(&config) == HeadForm::WrittenOut {
        config[TIE] = json!(true);
    }
    if let Some(config) = config.as_object_mut() {
        config.remove(WRITTEN_OUT);
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_out_head_is_that_of_a_tied_model_and_its_source_is_known() {
        let source = json!({"vocab_size": 9, "tie_word_embeddings": true});
        let copy = with_head_written_out(source.clone());
        assert_eq!(copy, json!({"vocab_size": 9, "tie_word_embeddings": false, "tied_head_written_out": true}));
        assert_eq!(HeadForm::of(&source), HeadForm::Tied);
        assert_eq!(HeadForm::of(&copy), HeadForm::WrittenOut);
        assert!(HeadForm::of(&copy).is_tied());
        assert_eq!(with_head_tied(copy), source);
        assert_eq!(with_head_tied(source.clone()), source);
    }

    #[test]
    fn a_head_of_its_own_is_told_apart_from_a_written_out_one() {
        for own in [json!({}), json!({"tie_word_embeddings": false}), json!({"tied_head_written_out": "yes"})] {
            assert_eq!(HeadForm::of(&own), HeadForm::Own);
            assert!(!HeadForm::of(&own).is_tied());
        }
    }

    #[test]
    fn smollm3_is_tied_unless_it_says_otherwise() {
        for config in [json!({"architectures": ["SmolLM3ForCausalLM"]}), json!({"model_type": "smollm3"})] {
            assert_eq!(HeadForm::of(&config), HeadForm::Tied);
            let mut own = config;
            own["tie_word_embeddings"] = json!(false);
            assert_eq!(HeadForm::of(&own), HeadForm::Own);
        }
    }
}
