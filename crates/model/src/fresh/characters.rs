//! A character tokenizer: line break, space and visible ASCII.

use serde_json::{Map, Value, json};

/// Padding, end, line break, space, the 94 visible ASCII characters, and the unknown.
pub(super) const CHARACTER_TOKENS: usize = 99;
/// Id of the padding.
pub(super) const PAD: u32 = 0;
/// Id of the end of a response.
pub(super) const END: u32 = 1;

/// `tokenizer.json`: a BPE without merges, which every library reads as a character tokenizer.
pub fn character_tokenizer() -> Value {
    let characters = ['\n', ' '].into_iter().chain('!'..='~');
    let names = ["<pad>".to_owned(), "<eos>".to_owned()].into_iter();
    let names: Vec<String> = names.chain(characters.map(String::from)).chain(["<unk>".to_owned()]).collect();
    let special = |id: u32, content: &str| json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true});
    let unknown = names.len() as u32 - 1;
    let vocabulary: Map<String, Value> = names.into_iter().enumerate().map(|(id, name)| (name, json!(id))).collect();
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [special(PAD, "<pad>"), special(END, "<eos>"), special(unknown, "<unk>")],
        "normalizer": null,
        "pre_tokenizer": null,
        "post_processor": null,
        "decoder": {"type": "Fuse"},
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": "<unk>",
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": false,
            "vocab": vocabulary,
            "merges": [],
        },
    })
}

/// `tokenizer_config.json`, from which engines read the end token.
pub(super) fn tokenizer_config(context: usize) -> Value {
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "eos_token": "<eos>",
        "unk_token": "<unk>",
        "clean_up_tokenization_spaces": false,
        "model_max_length": context,
    })
}
